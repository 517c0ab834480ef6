// Package httpguard carries tokens over HTTP, and lets no request pass whose
// token is missing, malformed or stale.
//
// # What it is
//
// A request names its tokens in the field Fencing-Token, a List of RFC 9651
// with one member for each token:
//
//	Fencing-Token: 179516977481431;r="account/42";h="billing:7:1:c2f1"
//
// [Transport] is the client's half: it writes the context's tokens into the
// field, for the hosts it was told of. [Middleware] is the server's half: it
// reads the field, puts the tokens into the request's context, and judges
// those of the resources the request is about.
//
//	ctx ──Transport──▶ Fencing-Token ──Middleware──▶ r.Context() ──▶ the guarded write
//
// Its answers, all application/problem+json of RFC 9457 (see [ProblemStale]
// and its neighbours), and all made before the handler runs:
//
//	an unsafe method without a token of the resource   428 Precondition Required
//	a malformed field, two tokens for one resource     400 Bad Request
//	a token without a valid seal, where seals count    403 Forbidden
//	a stale token, or a collision                      412 Precondition Failed
//	the store of marks did not answer                  503, with Retry-After
//	older requests have not left their handlers        503, with Retry-After
//	the resource of the request is not known           500
//
// [Error] gives the same answers to the errors of a handler's own writes, and
// Transport turns the refusal of another service into a [*guard.StaleError]. The
// contract with other languages is docs/http.md.
//
// # What it promises
//
// It fails closed: a field that cannot be read is never passed over, a store
// that cannot be asked admits nobody. No answer tells the mark, neither its
// number nor its holder, so that nobody can copy it. A refusal is never a
// status that clients are known to send again by themselves, and means that
// the request changed nothing. Tokens never leave for a host that was not named.
//
// Behind one [Window] no handler runs under an older token while one runs under
// a newer one. With a Store as durable as the resource, and a service that is one
// process, that alone is a fence for handlers whose writes have ended when they
// return. A database call is such a write only under a context that does not end
// ([context.WithoutCancel]): a driver that is interrupted leaves its statement
// behind, and the server may execute it when the newer request has come and gone.
//
// # What it does not
//
// It does not make the writes of several processes safe. The middleware of one
// replica compares before its handler runs; the process may be stopped right
// after, and write when a newer request has come and gone at another replica:
// check-then-act. The write itself must be guarded there, with the token that
// r.Context() carries, as sqlguard and redisguard do. The middleware then needs
// no Store of its own, and is there to say no early and in HTTP's words. The
// example "Incorrect" shows what becomes of a handler that trusts it.
//
// It does not know who speaks. The field is a claim that anyone can make who
// can reach the server: whoever makes up the greatest number is admitted, and
// locks everybody else out. Seals say that a token was issued by whoever has
// the key (package seal), and not that it is the sender's: whoever can read the
// field can send it again. Let in only callers that you trust, over TLS.
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
// Where next: package token for the tokens and their contexts, package guard
// for the rule and for stores, packages sqlguard and redisguard for the write,
// package seal for forgers.
package httpguard
