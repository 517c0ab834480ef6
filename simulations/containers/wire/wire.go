// Package wire is what a test and a writer in a container say to each other, as
// JSON values over one TCP connection: an order, its answer, and so on.
package wire

import "time"

// Port is where a writer listens for its test.
const Port = "7000/tcp"

// Ready is what a writer logs when it listens there.
const Ready = "listening for the test"

// Environment of a writer.
const (
	EnvRedis    = "REDIS"    // address
	EnvPostgres = "POSTGRES" // URL
)

// Verb is what a writer is to do.
type Verb string

// The verbs.
const (
	Hold    Verb = "hold"    // acquire Resource for TTL, renew it, claim, read the balance
	Write   Verb = "write"   // write Balance, in one packet
	Begin   Verb = "begin"   // write Balance in a transaction that stays open
	Commit  Verb = "commit"  // commit it
	Lost    Verb = "lost"    // wait until the lease is over
	Release Verb = "release" // give the resource back
)

// Order is what a test asks for.
type Order struct {
	Do       Verb
	Resource string
	TTL      time.Duration
	Balance  int
	// Observe has guards judge, and refuse nothing.
	Observe bool
}

// Answer is what became of it.
type Answer struct {
	Balance int
	// Outcome is empty where all went well, one of the words below, or else an
	// error's text.
	Outcome string
}

// The outcomes that tests tell apart.
const (
	Stale   = "stale"
	Unknown = "unknown"
	Evicted = "evicted"
	Gone    = "lease lost"
)
