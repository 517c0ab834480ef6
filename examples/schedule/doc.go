// Package schedule runs a job once per tick on any number of instances. Each instance
// wakes up by its own clock, and all but one find that the tick is done.
//
//	09:00  A's clock   takes the lock, records the tick, works, releases
//	09:00  B's clock   the lock is held                             ErrDone
//	09:00  C, late     the lock is free, the tick is recorded       ErrDone
//
// # What it teaches
//
//   - NoWait: an instance that does not get the lock has nothing to wait for.
//   - One resource for the job. With one resource per tick, a tick that takes too
//     long would overlap with the next one.
//   - HoldAtLeast keeps the lock for longer than the clocks differ. It is the only
//     protection if the job writes nowhere that could refuse it, such as a mail.
//   - If the job writes to a database, the tick is recorded in the job's own
//     transaction. Then neither a late instance nor a crash of the lock server can
//     repeat the tick, and a failed job is not recorded as done.
//   - The fence is for an instance that was stopped in the middle of its work.
//
// fencepost run --at-least does the first three for programs in any language.
package schedule
