// Package kernel plays a lock, a network, a guard and some holders against each
// other in simulated time, under the faults of [FaultNames], from a seed. One seed
// is one run, byte for byte. It is the engine of the command `fencepost explore`.
//
//	holders ──── network ──── lock ─── its replica
//	   │ A, B, …    │ delays, loses, doubles, reorders, is cut one way
//	   │            └──────── store: marks, floor, rows
//	   └── a proxy that tries again ── service: seals, window, store
//
// # What it promises
//
// What decides is the code that runs elsewhere: package lock, which memtoken
// asks; package tenure, which a Locker asks; guard.Mark and its rule; package
// window, which httpguard asks; package seal. The kernel adds what is around
// them: messages, clocks, processes that stop and die, servers that restart.
// Each run becomes a [history.History], which is judged by the kit's own rules.
//
// # What it does not
//
// The Lua and SQL of the other issuers and guards do not run here: suites,
// exhaustive models and torture hold them to the same rules on real servers.
// Goroutines do not run here: a step is atomic where the real code holds a
// mutex or is in a transaction, and nobody waits inside a transaction of the
// store. Clocks jump and stand, but all run at one rate.
//
// Four things are the kernel's own, where real code has its like elsewhere: that a
// lease counts from when its question was sent; that a line passes over who has
// died; that the rows remember units, since a token makes nothing idempotent; and
// that a proxy which sends again hands no refusal of its second copy on. Of the
// last, and of the first, the opposite is among the mutants.
//
// A lock that loses its memory breaks its own promises, and one whose clock jumps
// the one of being held alone: these rules are judged only where it did not. Those
// of the resource are judged always, but for bound: nobody here is kept waiting by
// a transaction.
//
// # Mutants
//
// [Mutants] are known mistakes of locks, guards and holders, each a few lines
// put in the place of one of the [laws]. A kernel that does not find them is not
// worth its figures.
package kernel
