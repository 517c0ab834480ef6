// Package leader is a service of several instances. One of them leads, and writes the plan.
// All of them follow the leader's address.
//
// # What it teaches
//
//   - Lead until ctx ends, and then return: ctx ends when the lease is lost. Run then
//     campaigns again. All work that was started under ctx has to end with it.
//   - To step down, return. Run returns too, and the program decides what is next.
//   - There is no "am I the leader?" before a write: the answer may be outdated when it
//     arrives. A leader writes under its token, and a former leader's writes are refused.
//   - What a follower reads is a hint.
package leader
