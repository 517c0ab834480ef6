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
// The suite is itself tested with broken issuers, each of which it must catch
// by the rule that it breaks.
//
// [Context] is for users: code that asks its context for a token can be tested
// without a lock service.
//
// # What it promises
//
// Durations are only ever awaited, never measured against a limit that a busy
// machine would exceed: an honest issuer passes however slow it is. Resources
// have random names, so that runs can share a server.
//
// # What it does not
//
// It cannot see what a server does when it crashes, is cut off or restored:
// whether a number was durable before it was handed out is for the issuer's
// own tests. Nor can it see that an expiry is anchored when the request was
// sent, since on a fast network there is no difference.
//
//	func TestIssuer(t *testing.T) {
//		tokentest.TestIssuer(t, func(t *testing.T) token.Issuer { return new(memtoken.Issuer) })
//	}
package tokentest
