// Package dst tests the library's decisions by deterministic simulation. It runs a lock,
// a network, a guard and some holders together in simulated time, under the faults of
// [FaultNames], from a seed. One seed gives one run, byte for byte. The command `go run
// -C lab ./explore` runs it.
//
//	holders ──── network ──── lock ─── its replica
//	   │ A, B, …    │ delays, loses, doubles, reorders, is cut one way
//	   │            └──────── store: marks, floor, rows
//	   └── a proxy that tries again ── service: signatures, in-flight table, store
//
// # What it promises
//
// The code that decides is the production code: package lockstate, which memtoken calls;
// package schedule, which a Locker calls; guard.Mark and its rule; package inflight,
// which httpguard calls; package signature. The simulator adds the code around them:
// messages, clocks, processes that stop and die, servers that restart. Each run becomes a
// [history.History], which is judged by the rules of that package.
//
// # What it does not do
//
// The Lua and SQL of the other issuers and guards do not run here. Suites, exhaustive
// models and stress tests check them against the same rules on real servers. Goroutines
// do not run here: a step is atomic if the production code holds a mutex or is in a
// transaction, and no step waits inside a transaction of the store. Clocks jump and stop,
// but all run at one rate.
//
// Four behaviors are the simulator's own. Production code has its own version of each:
//
//   - A lease counts from the time at which its request was sent.
//   - A queue skips waiters that have died.
//   - The rows remember units, since a token makes nothing idempotent.
//   - A proxy that repeats a request drops the refusal of its second copy.
//
// Mutants reverse the first and the last.
//
// A lock that loses its memory breaks its own promises. A lock whose clock jumps
// breaks mutual exclusion. These rules are judged only in runs without these faults.
// The rules of the resource are judged in every run, except bounded-blocking: no
// transaction here lasts long enough.
//
// # Mutants
//
// [Mutants] are known mistakes of locks, guards and holders. Each replaces one of the
// decisions by a few lines. A simulator that does not find them proves nothing.
package dst
