// Package leader elects one of several instances: the one that has the lock
// leads, and election is nothing but a loop around token.Locker.Hold.
//
//	stand ──Hold──▶ lead(ctx) ──lost──▶ stand again
//	                    │
//	                    └─────steps down, fails──▶ pause, stand again
//
// # What it teaches
//
//   - Lead until ctx ends, and then return: ctx ends when the lease is lost. What
//     was started under it has to end with it.
//   - To return nil is to step down. Others go first.
//   - Whoever has lost the lease stands again at once. Whoever failed pauses, for
//     longer each time: an instance that cannot lead should not keep the others
//     from it.
//   - There is no "am I the leader?": the answer is old when it arrives. A leader
//     writes under its token, and whoever leads no more is refused by the guard.
//   - The token's number is the term. It rises with every election.
package leader
