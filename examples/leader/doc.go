// Package leader elects one of several instances: the instance that has the lock leads.
// An election is a loop around lock.Locker.Hold.
//
//	stand ──Hold──▶ lead(ctx) ──lost──▶ stand again
//	                    │
//	                    └─────steps down, fails──▶ pause, stand again
//
// # What it teaches
//
//   - Lead until ctx ends, and then return: ctx ends when the lease is lost. All work
//     that was started under it has to end with it.
//   - To step down, return nil. Other instances go first.
//   - An instance that has lost the lease stands again at once. An instance that
//     failed pauses, longer each time, so that others can lead in the meantime.
//   - There is no "am I the leader?": the answer may be outdated when it arrives. A
//     leader writes under its token, and the guard refuses the writes of a former leader.
//   - The token's number is the term. It rises with every election.
package leader
