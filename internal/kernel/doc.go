// Package kernel plays a lock, a network, a guard and some holders against each
// other in simulated time, with every fault there is, from a seed. One seed is
// one run, byte for byte. It is the engine of the command `fencepost explore`.
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
// mutex or is in a transaction.
//
// A lock that loses its memory, or whose clock jumps, breaks its own promises:
// the rules of the lock are judged only where it did not. Those of the resource
// are judged always.
//
// # Mutants
//
// [Mutants] are known mistakes of locks, guards and holders, each a few lines
// put in the place of one of the [laws]. A kernel that does not find them is not
// worth its figures.
package kernel
