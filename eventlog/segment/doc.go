// Package segment keeps the entries of a log in files: numbered, linked by hashes, each behind the one before it.
// It knows nothing of what the entries mean; package eventlog does.
//
// Three calls are enough. [Open] opens the files of a group in a directory, or makes them. [Store.Append] writes an
// entry, and [Store.Sync] makes what was written durable and visible. [Store.Reader] reads from any place on.
//
// Entries fill a segment file until it has passed 64 MiB. Then it is sealed: it gets an end file beside it, with the
// places of its entries and its SHA-256, and never changes again. So a start reads the newest file only. Nothing in a
// record depends on the machine, so a sealed segment has the same bytes at every machine that has its entries.
//
// A write that was interrupted leaves bytes behind the last whole record. They are cut off when no whole record
// follows them and everything that was acknowledged is there ([Acked]); otherwise they are damage. Damage is returned
// as a *[DamageError] with file and offset, and nothing is changed then. docs/reference/eventlog.md has the bytes.
package segment
