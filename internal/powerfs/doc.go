// Package powerfs is a file system for tests that loses what was not synced, and fails where it is
// told to. It is a pass-through FUSE file system (Linux); nothing that ships imports it.
package powerfs
