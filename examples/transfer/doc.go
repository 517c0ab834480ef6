// Package transfer moves money between two accounts under two locks.
//
//	A   HoldAll 42, 43 │ reads │ stopped                       │ writes: refused
//	B                          │ HoldAll 43, 44: reads, writes │
//
// # What it teaches
//
//   - HoldAll takes the locks in one order, whatever the direction of the transfer.
//     Two nested Holds in opposite orders deadlock, and both renew their leases.
//   - UpdateAll admits both tokens before it reads, in one round trip. If one of two
//     locks is lost, nothing is written.
//   - Name resources by account and not by pair: the pairs 42, 43 and 43, 44 have an
//     account in common.
//   - Without the fence money is lost or made: A writes to 43 a value computed before
//     B's transfer.
package transfer
