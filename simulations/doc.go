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
//		app := start(t) // its pool has config.ConnConfig.Tracer = pgxpoint.Tracer{}
//		simulations.Run(t, simulations.Subject{
//			Issuer:   app.locks.Issuer,
//			Resource: "account/42",
//			Do:       func(ctx context.Context) error { return withdraw(ctx, app.locks, app.fence, 1) },
//			Holds:    true, // Do takes the lock itself
//			Count:    app.withdrawn,
//		})
//	}
//
// # Where next
//
// docs/testing.md explains how to read and reproduce a verdict. Packages pgxpoint, sqlpoint,
// redispoint and httppoint report the steps of drivers and HTTP; package process tests real
// processes.
package simulations

// The files of this package, in reading order:
//
//	subject.go       what a caller passes, which fields are required, and the defaults; how
//	                 Budget and Limit end a run; which interleavings a sample has
//	run.go           Run and Check: the plan, the random seeds, the twin; when a run is vacuous;
//	                 one interleaving or seed by its name; "no interleaving has this name"
//	explorer.go      the undisturbed run that finds the steps: "Do fails although nothing
//	                 disturbs it", "no tracer saw Do write"; the limits of the director's waits
//	interleaving.go  which interleavings a plan has, and their names, as in A_sleeps_at_5_begin
//	perform.go       one interleaving: pause, loss of the lock, successor, waking, crash, lost
//	                 reply; Expire and its errors; the random moves that a seed draws
//	stage.go         the state of one interleaving; its end: a new holder writes, units are
//	                 counted, rules are checked; "has not ended"; a Do that goes on when refused
//	writer.go        a holder as a goroutine: Hold, claim, Do, and what is recorded of them; the
//	                 names of its steps; a panic or t.FailNow in Do
//	breakpoint.go    a goroutine stops at a step and is resumed; how the director waits for a
//	                 writer; Failpoint, for steps of a caller's own
//	issuer.go        the issuer that a writer gets: it hides the loss of the lock, loses the
//	                 reply to a grant, and records each request
//	listen.go        the steps that guards and tracers report: which write is recorded, under
//	                 which token; writes outside of a Hold; dropped replies; evictions
//	facts.go         what is kept about a writer for its verdict: its transactions, their guards
//	                 and statements, its refusals and numbers
//	unheard.go       writes over traced connections under a context that is not Do's
//	verdict.go       the error of a broken rule; the text of a vacuous run; the page of the
//	                 first failure, and its file
//	likely.go        the lines "Likely:": which evidence leads to which mistake, and in which
//	                 order; why a twin was not corrupted
//	likely_once.go   the same for DoOnce: how tries of one unit were not recognized as such
//	mistakes.go      the texts of the mistakes
//	coverage.go      the lines "covered" and "not covered" that a pass logs
