// Package transfer moves money between two accounts under two locks.
//
//	A   HoldAll 42, 43 │ reads │ stopped                       │ writes: refused
//	B                          │ HoldAll 43, 44: reads, writes │
//
// # What it teaches
//
//   - HoldAll takes the locks in one order, whichever way the money goes. Two
//     nested Holds in opposite orders wait for each other for ever: both renew.
//   - UpdateAll admits both tokens before anything is read, in one packet. Of
//     two locks one may be lost and the other not: then nothing is written.
//   - One name for each account, not one for each pair: the pairs 42, 43 and
//     43, 44 have an account in common.
//   - Without the fence money is lost, or made: what A writes to 43 was read
//     before B's transfer.
package transfer
