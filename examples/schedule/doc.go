// Package schedule runs a job once per tick, on as many instances as there are:
// each of them wakes up by a clock of its own, and all but one find that there
// is nothing to do.
//
//	09:00  A's clock   takes the lock, writes down the tick, works, gives back
//	09:00  B's clock   the lock is held                             ErrDone
//	09:00  C, late     the lock is free, the tick is written down   ErrDone
//
// # What it teaches
//
//   - TryHold, not Hold: whoever does not get the lock has nothing to wait for.
//   - One name for the job. A name for each tick would let a tick that takes too
//     long overlap with the next one.
//   - AtLeast keeps the lock for longer than the clocks differ. It is all there
//     is where the job writes nowhere that could refuse it: a mail, say.
//   - Where the job writes to a database, the tick is written down in the job's
//     own transaction. Then it does not matter how late an instance is, nor
//     that a crash of the lock server forgets what was kept; and a job that fails
//     has not been done.
//   - The fence is for the instance that was stopped in the middle of its work.
//
// fencepost run --at-least does the first three for programs in any language.
package schedule
