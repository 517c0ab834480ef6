// Package simulate is the command fencepost simulate. It shows with real processes what a
// paused lock holder does to a row, and what a guard does about it. [Run] is its engine.
//
// # One round
//
//	writer A              the lock              writer B
//	acquires, reads  ───▶ A
//	stopped          z    A (not renewed)       requests, waits
//	                 z    expires          ───▶ acquires, reads
//	                 z    B                     writes, is acknowledged
//	continued        z    B or free
//	writes with what it read
//
// A and B are child processes. Their parent sends them orders, and stops and continues A.
// The same round runs in four ways, see [Way].
//
// # What it promises
//
// Every figure is counted from the rows in the database after the round and from the
// answers to the writers. A round that differs from the drawing is an error, and has no
// figures. A run uses its own names for everything it makes, and removes everything at
// its end, also when its context is cancelled.
//
// # What it does not do
//
// A run forces one interleaving each time, and does not search for others. If the parent is
// killed with SIGKILL, the writers end too, but the folder, the schema and the keys of the
// run stay.
package simulate
