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
//
// # The files, in reading order
//
//	world.go           what the seed draws: resources, holders, whether waiters queue, whether a
//	                   service stands between, the times of faults; the loop over the events
//	explore.go         many seeds on all cores, guarded and as the control; the report, and when
//	                   it is proven; a mutant until it breaks a rule; the play of one seed
//	decisions.go       the functions that decide, of the lock, the holder, the guard and the
//	                   service, as in production; a mutant replaces one
//	event.go           the order of events in simulated time, also of those at one instant;
//	                   events of a process that has died
//	faults.go          the names of the faults; which of them a run has; what each does to a
//	                   holder, the network, a clock, a server
//	network.go         messages that are delayed, lost, doubled or cut off; servers that are
//	                   down; a request with its reply or its timeout
//	process.go         a holder's process: stopped, suspended with its clock, killed; what waits
//	                   until it continues
//	acquire.go         a request for the lock until it is granted or given up; grants whose
//	                   replies are lost; the claim; the recovery of a lock that has lost numbers
//	lease.go           a hold from the grant on: its deadline, renewals, overrun, loss and
//	                   release; the pause before the next acquisition
//	task.go            a unit of work: read, think, check the lease, write; the attempts after a
//	                   lost reply, and the outcome then
//	lock_server.go     the lock and its replica: what is replicated, the promotion, what a
//	                   restart loses; queues; which granted numbers are recorded
//	store.go           the database: rows, marks, the floor; admit, write and prune; a unit that
//	                   was applied gets its first answer again
//	service.go         the service: signature, in-flight table, store, handler; marks that
//	                   cannot be reached; the proxy that sends a request again; a forged token
//	record.go          the history of a run, and what is added at its end; which rules a run is
//	                   judged by; acknowledged and lost units
//	mutants.go         the list of all mutants, by place
//	mutants_lock.go    mistakes of the lock: in its numbers, grants, queue, owner checks,
//	                   restart and recovery
//	mutants_holder.go  mistakes of the holder: in its claim, token, lease, lost replies and
//	                   recovery
//	mutants_guard.go   mistakes of the guard: in its rule, the order of check and write, the
//	                   storage of marks, prune; and mistakes of the service and its proxy
package dst
