// Package handover has the figures of a lock in Redis that many want at once: how
// it passes from one to the next.
//
//	one process    all waiters share one issuer, as goroutines of one program do
//	processes      each has an issuer and a client of its own, as programs have
//	a channel      what all of it would cost inside one process, without a server
//	a PING         one round trip, by a program that pauses between two of them as
//	               long as a holder holds
//	a script       the same, of a script that looks whose a lock is: no hand-over
//	               can do with less
//
// Each holds for 1 ms and then does something else for 3 ms, except where it says
// "at once": there it asks again as soon as it has given back.
package handover
