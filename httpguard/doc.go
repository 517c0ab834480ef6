// Package httpguard carries fencing tokens over HTTP. Its middleware refuses a request
// whose token is missing, malformed or stale.
//
// # What it is
//
// A request carries its tokens in the field Fencing-Token, a List (RFC 9651) with one
// member for each token:
//
//	Fencing-Token: 179516977481431;r="account/42";h="billing:7:1:c2f1"
//
// [Transport] is the client's half. It writes the tokens that a request needs (see
// [WithResources]) from the request's context into the field, for the hosts that it is
// configured with. [Middleware] is the server's half. It reads the field, puts the tokens
// into the request's context, and checks the tokens of the resources that the request is
// about.
//
//	ctx ──Transport──▶ Fencing-Token ──Middleware──▶ r.Context() ──▶ the guarded write
//
// Middleware refuses a request before the handler runs. The response is
// application/problem+json (RFC 9457; see [ProblemStale] and the other types):
//
//	an unsafe method without a token of the resource                428 Precondition Required
//	a malformed field, or two tokens for one resource               400 Bad Request
//	no valid signature, if Middleware has a Keyring                 403 Forbidden
//	a stale token, or a collision                                   412 Precondition Failed
//	the store of marks failed                                       503, with Retry-After
//	older requests are still in their handlers after WaitTimeout    503, with Retry-After
//	Middleware cannot determine the request's resource              500
//
// [Idempotency] reads the field Idempotency-Key beside the token, and makes a [guard.Unit]
// of the request. A handler that applies the unit with Once has its effect once, however
// often the request is repeated, and a repeat gets the stored [Answer].
//
// [Error] gives the same responses to the errors of a handler's own writes. Transport
// turns the refusal of another service into a [*guard.StaleError]. docs/http.md is the
// contract for other languages.
//
// # What it promises
//
// It fails closed. If the field cannot be read, or the store fails, the request is
// refused. A refusal means that the request changed nothing, and its status is one that
// HTTP clients do not retry by default. No response contains the mark's number or holder,
// so a client cannot copy them. Tokens are sent only to the hosts in Transport.Hosts.
//
// Handlers that share an [InFlight] never run under an older token while one runs under
// a newer token of the same resource. If the service is one process and its Store is as
// durable as the resource, this alone is a fence, for handlers whose writes end before
// they return. A database call is such a write only under a context that is never
// cancelled ([context.WithoutCancel]). If the context is cancelled, the driver returns,
// but the server may still execute the statement after a newer request has finished.
//
// # What it does not do
//
// It does not make the writes of several processes safe. The middleware compares before
// the handler runs, and the write comes later:
//
//  1. replica 1 admits 33, and its process is stopped;
//  2. replica 2 admits 34, whose handler writes and returns;
//  3. replica 1 resumes, and its handler writes under 33.
//
// With several replicas the write itself must be guarded, with the token in r.Context(),
// as sqlguard and redisguard do. The middleware then needs no Store: it refuses early and
// with HTTP's status codes. The example "Incorrect" shows the lost write.
//
// It does not authenticate the sender. Any caller that can reach the server can send any
// number. A caller that sends the greatest number is admitted, and its number locks out
// every other holder. A signature (package signature) proves that a holder of the key
// issued the token. It does not prove that the sender is that token's holder: a caller
// that can read the field can replay it. Admit only callers that you trust, over TLS.
//
// It does not guard a GET that writes. Safe methods pass without a token.
//
//	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{id}")}
//	mux.Handle("PUT /accounts/{id}", guarded.Wrap(http.HandlerFunc(
//		func(w http.ResponseWriter, r *http.Request) {
//			err := sqlguard.Update(r.Context(), pool, "account/"+r.PathValue("id"), withdraw)
//			if err != nil {
//				httpguard.Error(w, r, err)
//			}
//		})))
//
// Where next: package token for the tokens and their contexts, package guard for the
// rule and for stores, packages sqlguard and redisguard for the write, package signature
// for callers that you do not trust.
package httpguard

// The files of this package, in reading order:
//
//	middleware.go  server: a request's checks, in order; a missing token; tokens that no handler
//	               looked up; report-only mode; which middlewares share an InFlight
//	pattern.go     server: a request's resource from its path; "is empty: mount the middleware"
//	               around a route, not around the router; a slash within a path value
//	inflight.go    server: a newer token cancels older requests and waits for them; WaitTimeout:
//	               "older requests are still in their handlers"
//	request.go     server: how a cancelled request ends: its context, the read and write
//	               deadlines, Connection: close; reads of a body that a proxy forwards
//	idempotency.go server: a request's unit from its Idempotency-Key; what belongs to the key, and
//	               what to the fingerprint; 400, 409 and 413
//	answer.go      server: the response that Once stores; which header fields it has
//	problem.go     server: the status and the problem type of each error; what a cancelled
//	               handler's error means; what a response leaves out, and what is logged instead
//	transport.go   client: which tokens a request needs; which hosts get them; which are signed; a
//	               412 as a StaleError; no response, or a second attempt: ErrUnknown; not sent
//	               after a lost lease
//	key.go         both: how the field Idempotency-Key is parsed and written; keys without quotes
//	header.go      both: how the field Fencing-Token is parsed and written; which fields are
//	               malformed; the limits of bytes and members; the parser of the usual form
//	simulated.go   the switch for simulations: the steps that are reported, the unguarded twin,
//	               a request or a response that is dropped
