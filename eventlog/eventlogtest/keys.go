package eventlogtest

import "troupe/eventlog"

// Keys vouch for the batches of format 3 that tests write.
var Keys = eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("the secret of tests")}}.Batches()
