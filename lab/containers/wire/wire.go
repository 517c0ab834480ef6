// Package wire has the messages between a test and a writer in a container: JSON values
// over one TCP connection, orders and answers in turn.
package wire

import "time"

// Port is the port on which a writer listens for its test.
const Port = "7000/tcp"

// Ready is the line that a writer logs when it listens.
const Ready = "listening for the test"

// Environment of a writer.
const (
	EnvRedis    = "REDIS"    // address
	EnvPostgres = "POSTGRES" // URL
)

// Verb is the action of an order.
type Verb string

// The verbs.
const (
	Hold   Verb = "hold"   // acquire Resource for TTL, renew it, claim, read the balance
	Write  Verb = "write"  // write Balance, in one packet
	Begin  Verb = "begin"  // write Balance in a transaction that stays open
	Commit Verb = "commit" // commit it
	Lost   Verb = "lost"   // wait until the lease is over
)

// Order is a request from the test to the writer.
type Order struct {
	Do       Verb
	Resource string
	TTL      time.Duration
	Balance  int
	// Observe makes guards report-only. The zero value is false.
	Observe bool
}

// Answer is the result of an order.
type Answer struct {
	Balance int
	// Outcome is "" after success, one of the words below, or the error's text.
	Outcome string
}

// The outcomes that tests distinguish.
const (
	Stale   = "stale"
	Unknown = "unknown"
	Evicted = "evicted"
	Gone    = "lease lost"
)
