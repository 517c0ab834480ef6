// Package tenure is what a Locker decides about a lease: until when it may be
// relied on, when to renew it, how long to wait for an answer, and whether a
// guard's refusal means that the issuer has forgotten. It has no clock, no timer
// and no goroutine: whoever asks says what time it is.
//
// Package token asks it from its wheel of leases; package kernel from simulated
// processes that are stopped, cut off and killed.
package tenure
