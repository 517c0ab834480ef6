// Package queue is a job queue in one table. Workers take jobs with FOR UPDATE SKIP
// LOCKED. A job that was taken becomes visible again after a timeout, in case its worker
// has died. The worker may have been slow instead:
//
//	A   takes job 7 (token 33)  │ paused past the timeout      │ Complete: refused
//	B                           │ takes job 7 (token 34), Complete              │
//
// # What it teaches
//
//   - The timeout of a job is a lease, and a late completion is a stale write.
//     "WHERE state = 'running'" does not catch it: B's job is running.
//   - Guard.MintTx numbers the claim in the transaction that takes the job. No lock
//     service is needed: the row lock has already chosen the worker.
//   - The job's result is written in the transaction that completes the job, so it is
//     written once, however often the job was begun.
//   - Work outside of the database carries the token too, with Job.Context and
//     httpguard.Transport for example.
//
// docs/adopt.md shows the same in two functions, for an existing queue.
package queue
