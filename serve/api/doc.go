// Package api is the edge of the decision server: HTTP in front of a [serve.Service].
//
// A request passes, in this order: the name of the host, the protection against other web sites,
// the limit of requests at once, the key, the key's rate, the route, the scope and the pattern for
// the model, the strict reader of the body. What is left is a call of the Service; its errors
// become problem+json ([Problem]). Nothing here keeps state that matters: everything durable is the
// Service's.
//
// Routes. /v1 is the API; /openapi.json describes it and /docs prints that. / is the status page,
// /livez, /readyz and /metrics are for machines. An [Adapter] adds the routes of another product.
//
// Bodies are read by a strict reader (decode.go): a field that is not known, twice there, or not a
// finite number is refused with its name. Answers and logs never repeat what a request said.
package api
