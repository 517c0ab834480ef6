// Package tokentest holds an implementation of [token.Issuer] to its contract,
// and gives unit tests a context with tokens in it.
//
// # What it is
//
// [TestIssuer] runs one subtest per rule against an issuer, over its public
// methods and in real time. The name of the subtest is the rule, and so is the
// beginning of what a broken one prints:
//
//	rule: a renewal never acquires what was released: Renew returned <nil>, want ErrLost
//
// What an issuer may be besides, a [token.Waiter], a [token.BatchRenewer] or a
// [token.Raiser], is held to its own rules where it is one; there is no subtest
// for what it is not. The suite is itself tested with broken issuers, each of
// which it must catch by the rule that it breaks.
//
// [Context] is for users: code that asks its context for a token can be tested
// without a lock service.
//
// # What it promises
//
// Durations are only ever awaited, never measured against a limit that a busy
// machine would exceed: an honest issuer passes however slow it is. That
// somebody stands in line cannot be seen from outside: a waiter gets 20 ms to
// come there, and where one is then passed, or served out of turn, the check is
// repeated with more, up to 1.3 s. What no slowness explains (two holders at
// once, a number that falls) fails at the first time. Resources have random
// names, so that runs can share a server.
//
// # What it does not
//
// It cannot see what a server does when it crashes, is cut off or restored:
// whether a number was durable before it was handed out is for the issuer's
// own tests. Nor can it kill a waiter, or hold up a message: that an expiry is
// anchored when the request was sent, or that of a hand-over at the waiter's own
// last request, makes no difference on a fast network. Re-entry is the Locker's.
//
//	func TestIssuer(t *testing.T) {
//		tokentest.TestIssuer(t, func(t *testing.T) token.Issuer { return new(memtoken.Issuer) })
//	}
package tokentest
