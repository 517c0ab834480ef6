// Package point names the places where a call of this library can be held up,
// and lets a simulation listen there. It costs a load and a branch for as long
// as no simulation has begun in the process.
package point

import (
	"context"
)

// Step is what a call is about to do, or has just done.
type Step string

const (
	// Begin comes before a transaction begins, and before a statement that is
	// sent outside of one.
	Begin Step = "begin"
	// Admitted comes when the token was admitted, and nothing is written yet.
	Admitted Step = "admitted"
	// Statement comes before a statement inside a transaction.
	Statement Step = "statement"
	// Commit comes before COMMIT.
	Commit Step = "commit"
	// Applied comes when a write was acknowledged, and its caller does not know
	// it yet.
	Applied Step = "applied"
	// Undone comes when what began has ended, and nothing was written. Marks do
	// not count: a claim ends like this, and a transaction that has only read.
	Undone Step = "undone"
	// Unknown comes when what began has ended, and nobody knows how.
	Unknown Step = "unknown"
	// Request comes before an HTTP request is sent.
	Request Step = "request"
	// Response comes when its answer has arrived, or will not; and at the
	// server's side when the handler has returned.
	Response Step = "response"
)

// Listener is called on the goroutine that has come to a step, and holds it up
// until it returns. key is the same for the steps of one transaction, and
// another for every other that is open at the time; it is comparable. A
// transaction that is tried again may begin again under its key.
type Listener func(ctx context.Context, step Step, key any)

// Listen returns a context whose steps l hears of.
func Listen(ctx context.Context, l Listener) context.Context {
	s := &session{listener: l}
	if outer := of(ctx); outer != nil {
		s.observing = outer.observing
	}
	return s.in(ctx)
}

// Listening reports whether somebody hears of the steps of ctx.
func Listening(ctx context.Context) bool {
	s := of(ctx)
	return s != nil && s.listener != nil
}

// At tells the listener of ctx, if there is one, that key has come to step.
func At(ctx context.Context, step Step, key any) {
	if !begun.Load() {
		return
	}
	if s := of(ctx); s != nil && s.listener != nil {
		s.listener(ctx, step, key)
	}
}
