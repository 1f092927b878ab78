// Package logged reads and writes the logs of decisions that people have: one event type, and a
// streaming reader and writer for each format.
//
// Three nouns:
//
//   - an Event is one decision with its propensity and its reward, or a list of slots that were filled
//     together;
//   - a Reader gives the events of one file in its order. Open recognises the format and gzip and zstd by
//     content. Memory is bounded by one event (Parquet: one page of each column; ids: 8 bytes for each
//     event, to find one that comes twice);
//   - a Writer writes the events of one file. It refuses what its format cannot say, or counts it when
//     WriteOptions.Lossy is set.
//
// What a reader gives a writer of the same format gives back, and a reader of it reads the same events.
//
// A bad event is an *Error with file, line, column, field, what was found and what was expected. Nothing is
// repaired in silence: what a reader leaves out (a line that is no event, a block without a label) it counts
// by reason in Reader.Skipped.
package logged
