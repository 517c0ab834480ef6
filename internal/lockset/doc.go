// Package lockset repeats, on real servers, the experiment that made etcd's
// locks famous: a set that is guarded by a lock, and nothing else, loses
// additions that were acknowledged. It is the engine of `make experiment`.
//
// # One addition
//
//	acquire the lock (Redis)       ttl 2 s, renewed
//	read the set (PostgreSQL)
//	work                           0 to 2 s, at random
//	write the set back             with one integer more
//	acknowledge                    to the parent
//	release
//
// Five processes do this again and again, in every [Way] at the same time, each
// way with a set and a lock of its own. The parent stops some of them with
// SIGSTOP and lets them go on, at random. At the end the sets are read, and what
// was acknowledged and is not there was lost.
//
// # Whose experiment it is
//
// Jepsen's of etcd 3.4.3, https://jepsen.io/analyses/etcd-3.4.3 (2020), workload
// lock-set of https://github.com/jepsen-io/etcd: its ttl, its work, its number
// of clients, its length, its random pauses. It differs in what is paused, which
// there was the lock service: see [Config].
//
// # What it promises
//
// All ways live in the same processes, so that every pause meets all of them at
// the same instant, and they draw the same lengths of work. An addition whose
// outcome was not told is never counted as acknowledged. A run that could not be
// carried out is an error, never a figure.
//
// # What it does not
//
// It searches for nothing, as package simulations does: pauses come when they
// come, and what was not lost in one run may be lost in the next.
package lockset
