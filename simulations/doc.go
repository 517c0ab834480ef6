// Package simulations tests your own code against a paused lock holder: a holder that is
// stopped, loses its lease, resumes, and then writes.
//
// # What it is
//
// [Run] calls a [Subject], your own function, many times with two, three and more holders.
// It stops one of them at a step of its work, which guards, drivers and transports
// report. It takes the lock away, lets a successor write, and resumes the stopped holder
// or ends it. Then it counts what the resource contains.
//
//	A   acquires, claims, reads │ stopped                   │ writes: refused?
//	lock                        │ taken away, without notice│
//	B                           │ acquires, reads, writes   │
//
// Run first performs every interleaving of a small plan, then random ones from a seed
// that it prints. It records the operations of every writer and checks them against
// rules, which docs/testing.md lists. A verdict names the rule that was broken and shows
// the shortest history that breaks it.
//
// # What it promises
//
// A pass means something: Run performs the same with all refusals ignored (the unguarded
// twin), and fails as vacuous unless that corrupts the resource. Correct code does not
// fail: where a result is ambiguous, such as the outcome of an ordinary error, the rules
// assume the result that is allowed. A pass logs what it covered and what it could not
// observe. A verdict ends with its most likely cause.
//
// Run takes locks away instead of waiting for leases to expire, so a plan takes
// milliseconds in memory.
//
// # What it does not do
//
// It observes steps and counts units. It does not detect writes over a connection without
// a tracer to data that Count does not read. On a real database it stops writers at their
// steps, and does not control how the server interleaves the statements between them. It
// stops goroutines; package process stops processes.
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
// docs/testing.md explains how to read and reproduce a verdict. Packages pgxpoint, sqlpoint
// and httppoint report the steps of drivers and HTTP; package process tests real processes.
package simulations
