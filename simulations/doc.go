// Package simulations proves, as a test, that somebody's own code survives the
// pause: a holder of a lock that stands still past the end of its lease, and
// then writes.
//
// # What it is
//
// [Run] performs a [Subject], which is your own function, again and again with
// two, three and more holders. One of them is stopped: at a step of its own
// work, which guards, drivers and transports report. Its lock is taken away, a
// successor writes, it wakes up or never does, and the resource is counted.
//
//	A   acquires, claims, reads │ stopped                   │ writes: refused?
//	lock                        │ taken away, never told    │
//	B                           │ acquires, reads, writes   │
//
// First every interleaving of a small plan, then random ones from a printed
// seed. What everybody did is put down ([history.History]) and held against
// rules ([history.Rules]); the verdict is a broken rule in words, and the
// shortest history that breaks it.
//
// # What it promises
//
// It can fail: the same is performed with all refusals ignored, and there the
// resource must be corrupted, or the run itself fails as toothless. Code that
// survives is not accused: what is not known, such as the outcome of an
// ordinary error, counts for it. Nothing has to wait for a lease to end, so that
// a plan takes milliseconds in memory.
//
// # What it does not
//
// It sees steps and counts units. What a Do writes to another place than Count
// looks at, over a connection that nobody listens to, it cannot judge. On a real
// database it stops writers at their steps and does not decide how a server
// interleaves what runs between them. It stops goroutines; package process
// stops processes.
//
//	func TestWithdrawalsSurviveThePause(t *testing.T) {
//		app := start(t)
//		simulations.Run(t, simulations.Subject{
//			Issuer:   app.locks.Issuer,
//			Resource: "account/42",
//			Do:       func(ctx context.Context) error { return withdraw(ctx, app.locks, app.fence, 1) },
//			Count:    app.withdrawn,
//		})
//	}
//
// # Where next
//
// docs/testing.md for how to read a verdict and have it again; pgxpoint,
// sqlpoint and httppoint for the steps of your drivers; process for real
// processes, proxy for partitions, history to judge what you record yourself.
package simulations
