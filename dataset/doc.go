// Package dataset reads real data for classification played as a bandit.
//
// Three nouns:
//
//   - a Table is one file: columns that are numeric or categorical, a class column, n rows. Read
//     and Parse make it from ARFF, CSV, space-separated text or LIBSVM;
//   - an Encoded table is numbers: one row of features per example, inside the unit ball, and the
//     number of its class. Table.Encode makes it;
//   - a Source loads and encodes each file once and shares the result between workers.
//
// # Strictness
//
// A file that is damaged is refused, never repaired: the Error names file, line and column
// (counted in bytes, from 1), the field, what was found and what was expected. NaN and infinities
// are refused, and so are a nominal value that was not declared, a row that is too short or too
// long, and a column that mixes numbers with text. What is missing is marked "?" (in CSV also by
// an empty field; in CSV and space-separated text by NA, nan, NULL and the other texts of Gaps, unless they are quoted);
// a missing class is refused.
//
// The type of an ARFF column is declared. In CSV and space-separated text a column has the type of
// its first value that is present, and a later value of the other type is refused, because a
// number with a typing error would otherwise silently turn a numeric column into a categorical one
// with thousands of levels. A column whose numbers are names is listed in Options.Categorical.
//
// # Formats
//
// ARFF: @relation, @attribute with numeric, integer, real or {nominal} types, @data; keywords in
// any case, names and values in '…' or "…" with backslash escapes, comments after %. Sparse rows,
// instance weights and the types string, date and relational are refused.
//
// CSV (RFC 4180 by encoding/csv; comma, semicolon or tab): with or without a header. Spaces around
// a field are dropped; after a closing quote they are refused.
//
// Space-separated: fields between runs of blanks, no quotes.
//
// LIBSVM: "label index:value …" with ascending indices, comments after #. What is not listed is 0.
// The table is stored densely.
package dataset
