// Package renew has the figures of keeping many leases in Redis alive.
//
//	one wheel      what a Locker does: one timer, and batches of renewals
//	one by one     a goroutine and a timer for each lease, which is what programs
//	               write, and what most libraries do
//
// Ten thousand leases of 15 s are acquired over 5 s, and then each is renewed every
// 5 s. Their renewals come as evenly as they were acquired.
//
//	client CPU     what this process used, its collector included
//	Redis CPU      what the server says that it used
//	packets        how often the client wrote to a connection
//	renewal state  the fields of a lease that are for its renewal, and what the
//	               heap and the stacks shrink by when all leases have been
//	               released and are still referred to
//	lateness       of the renewals of all leases, which fall due in one moment:
//	               from that moment to the answer
//
// One that is not renewed is an error.
package renew
