// Package httptoken is a lock service over HTTP: a [Handler] over any issuer, and an
// [Issuer] that asks it. docs/serve.md is the contract, for clients in any language.
//
//	server := &http.Server{Handler: &httptoken.Handler{Issuer: iss, Rights: rights}} // any number of replicas
//
//	iss := &httptoken.Issuer{URL: "https://locks.example.com", Bearer: secret} // their clients
//	locker := lock.Locker{Issuer: iss, Name: "billing", Claim: fence.Admit}
//
// It promises what the issuer behind it does: one holder at a time, rising numbers, and an order
// of waiters. If a replica dies, its leases go on, and another replica renews them. If
// Handler.Keyring is set, only the client that made an acquisition can repeat, renew or release
// it: the holder that marks, errors and replies show is a label and a hash.
//
// A wait that ends, after [MaxWait] at most, loses its place in the queue. After it, a client that
// got no reply, or 503, must make a new request. The Issuer follows that rule, since a Locker then
// uses a new holder. The Issuer is no [token.Recoverer]: an issuer that has lost its numbers goes
// on from the clock, and a break raises it.
//
// The Handler limits no rates: a proxy does that.
package httptoken

// The files of this package, in reading order:
//
//	handler.go  the settings; the requests, names and bodies; one request of a holder at a time
//	lease.go    acquire, wait, renew, release; the issuer's holder; what a client has to prove
//	locks.go    one lock, pages of locks, and the break of one
//	rights.go   bearer tokens, their rights and prefixes
//	problem.go  the status and the problem type of each error; what is logged
//	issuer.go   the client: what a lease's end counts from; how it waits and leaves
