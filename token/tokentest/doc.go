// Package tokentest tests an implementation of [token.Issuer] against its contract, and
// provides a context with tokens for unit tests.
//
// # What it is
//
// [TestIssuer] runs one subtest for each rule against an issuer, through its public
// methods and in real time. The subtest is named after the rule. A failure prints the
// rule and what was seen instead:
//
//	rule: a renewal never acquires what was released: Renew by "a" returned <nil>, want ErrLost
//
// If the issuer is also a [token.QueueIssuer], a [token.BatchRenewer], a
// [token.Recoverer] or a [token.Inspector], the rules of that interface are tested too;
// otherwise they have no subtests. If it is a [Forgetter], numbers must rise over a loss
// of its data. The suite is tested with mutants: broken issuers, each of which must fail
// the rule that it breaks.
//
// [Context] is for users: with it, code that gets its token from a context can be tested
// without a lock service.
//
// # What it promises
//
// A correct issuer passes however slow it is: the tests wait for events and durations,
// and measure nothing against a limit that a busy machine could exceed. The suite cannot
// observe whether a waiter has joined the queue, so it waits 20 ms. If that waiter is
// then overtaken, or served out of order, the check is repeated with more time, up to
// five seconds. A fault that no delay explains (two holders at once, a number that falls)
// fails at once. Resources have random names, so that several runs can share a server.
//
// # What it does not do
//
// It does not test a crash, a partition or a restore of the server: whether a number was
// durable before it was returned is for the issuer's own tests. It cannot kill a waiter
// or delay a message, so on a fast network it does not detect an Until that counts from
// the wrong request. It does not test nested Holds, which the Locker implements.
//
//	func TestIssuer(t *testing.T) {
//		tokentest.TestIssuer(t, func(t *testing.T) token.Issuer { return new(memtoken.Issuer) })
//	}
package tokentest

// The files of this package, in reading order:
//
//	suite.go    which rules are tested of which interface; the calls that rules are made of, and
//	            their failure texts ("want a *HeldError"); the ttls and the timeout
//	acquire.go  numbers that do not rise, also over a loss, or are below the clock; a held
//	            resource; the holder acquires again; names that an issuer takes for equal, or must refuse
//	lease.go    a Renew that acquires; a Release by another holder; expiry, and an Until that is
//	            too late; Acquire, Renew and Release under a cancelled context
//	crowd.go    many callers at once: two holders of one resource; numbers out of order; waiters
//	            that are not served equally often ("Jain's index")
//	queue.go    the order of waiters; a release or an expiry hands over; a caller that overtakes
//	            the queue
//	handoff.go  a lease that was handed over: its Until, renewed, granted again; a waiter that
//	            leaves, also during its hand-off
//	waiter.go   the calls of Wait; "was served before"; a check that a slow machine may fail is
//	            repeated with more time (settled)
//	batch.go    RenewAll: a result for each lease; lost leases; a cancelled context, and writes
//	            to the batch after the return
//	recover.go  Recover: the next number, ErrLost, ErrTooFarAhead; several Recovers at once, and
//	            among grants
//	inspect.go  Inspect of a held and of a free resource, and of its waiters; Locks of names that
//	            a search may take for patterns
//	context.go  not for issuers: a context with tokens, for unit tests of code that takes its
//	            token from it
