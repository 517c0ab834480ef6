// Package simulate shows, with real processes, what a paused lock holder does
// to a row, and what a guard does about it. It is the engine of the command
// `fencepost simulate`.
//
// # One round
//
//	writer A              the lock              writer B
//	acquires, reads  ───▶ A
//	stopped          z    A (nobody renews)     asks, waits
//	                 z    expires          ───▶ acquires, reads
//	                 z    B                     writes, is acknowledged
//	continued        z    B or free
//	writes with what it read
//
// A and B are child processes of this one: the parent tells them what to do,
// and stops and continues A. The same round runs in four ways, see [Way].
//
// # What it promises
//
// Every figure is counted from the rows the database holds afterwards and from
// the answers the writers were given. A round that could not be carried out as
// drawn is an error, never a figure. Whatever a run makes it makes under names
// of its own, and removes at its end, also when its context is cancelled.
//
// # What it does not
//
// It is a demonstration of one interleaving, forced each time, and no search
// for others. If the parent is killed with SIGKILL the writers die with it, but
// the folder, the schema and the keys of the run stay.
package simulate
