// Package personalizer takes the calls of clients of Azure Personalizer, which was discontinued. A client changes its
// base URL, to this server for the model that [New] names or to …/v1/models/NAME for another one, and sends what it
// always sent. docs/guide/migrating-from-personalizer.md is the user's page.
//
// Their event ids are names that the caller chose. Such a name becomes the idempotency key of the decision, by which
// the event is found again; a rank without one is answered with an id of the server's.
//
// The package stands on the [api.Edge] and on three small interfaces (decider, models, history), all of them given by
// Routes. A server without it has no line about it but the one that mounts it.
package personalizer
