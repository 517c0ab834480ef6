// Package etcdset repeats, on real servers, the experiment that showed a flaw of etcd's
// locks: a set that only a lock guards loses acknowledged additions. `make experiment`
// runs it.
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
// Five processes do this again and again, in all ways at the same time. Each way has a
// set and a lock of its own. The parent stops random processes with SIGSTOP and continues
// them. At the end the sets are read. Acknowledged additions that are missing were lost.
//
// # Source of the experiment
//
// It is Jepsen's experiment on etcd 3.4.3, https://jepsen.io/analyses/etcd-3.4.3 (2020),
// workload lock-set of https://github.com/jepsen-io/etcd, with its TTL, work, number of
// clients, length and random pauses. The pauses differ: the original paused etcd's nodes,
// so that its clients could not renew. Here the servers run, and the holders of the lock
// are stopped.
//
// # What it promises
//
// All ways are in the same processes, so that each pause hits all of them at the same
// instant, and they have the same lengths of work. An addition with an unknown outcome is
// never counted as acknowledged. A run that could not be carried out is an error and no
// figure.
//
// # What it does not do
//
// It does not search for interleavings, as package simulations does: pauses come at
// random, and additions that were not lost in one run may be lost in the next.
package etcdset
