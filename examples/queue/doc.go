// Package queue is a job queue in one table: workers take jobs with FOR UPDATE
// SKIP LOCKED, and a job that was taken is visible again after a while, in case
// its worker has died. It may only have been slow:
//
//	A   takes job 7 (token 33)  │ sleeps for longer than that  │ Complete: refused
//	B                           │ takes job 7 (token 34), Complete              │
//
// # What it teaches
//
//   - The timeout of a job is a lease, and a late completion is a stale write.
//     "WHERE state = 'running'" does not catch it: B's job is running.
//   - sqlguard.Mint in the transaction that takes the job numbers the claim. No
//     lock service is needed: the row lock has chosen the worker already.
//   - What the job results in is written in the transaction that completes it. So
//     it is there once, however often the job was begun.
//   - Work that reaches beyond the database carries the token too: Job.Context,
//     and httpguard.Transport, say.
//
// docs/adopt.md has the same in two functions, for a queue that is there already.
package queue
