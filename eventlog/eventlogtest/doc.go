// Package eventlogtest has what tests of an event log need, and of programs that use one.
//
//   - [Memory] is a log without a disk. It fails where a test says so, and [Memory.Crash] loses what
//     was not synced.
//   - [TestLog] is the conformance suite: every implementation of eventlog.Log passes it.
//   - [History] keeps what callers were told and compares it with what the log holds.
//
// Nothing that ships imports this package.
package eventlogtest
