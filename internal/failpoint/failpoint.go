// Package failpoint names the places where a call of this library can be blocked, and
// lets a simulation listen at them. Until the first simulation of a process begins, a
// place costs a load and a branch.
package failpoint

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Step is what a call is about to do, or has just done.
type Step string

const (
	// Begin comes before a transaction begins, and before a statement that is sent
	// outside of a transaction.
	Begin Step = "begin"
	// Admitted comes after the token was admitted and before anything is written.
	Admitted Step = "admitted"
	// Statement comes before a statement inside a transaction.
	Statement Step = "statement"
	// Commit comes before COMMIT.
	Commit Step = "commit"
	// Applied comes after a write was acknowledged, before the call returns.
	Applied Step = "applied"
	// Undone comes after a transaction or statement has ended without a write. A raised
	// mark is not a write: a claim ends with Undone, and so does a transaction that only
	// reads.
	Undone Step = "undone"
	// Unknown comes after a transaction or statement has ended with an unknown outcome.
	Unknown Step = "unknown"
	// Request comes before an HTTP request is sent.
	Request Step = "request"
	// Response comes when the answer to a request has arrived or cannot arrive any more.
	// On the server it comes when the handler has returned.
	Response Step = "response"
)

// LastStep returns the last step of a write with error err. unknown is guard.ErrUnknown,
// which this package does not import.
func LastStep(err, unknown error) Step {
	switch {
	case err == nil:
		return Applied
	case errors.Is(err, unknown):
		return Unknown
	}
	return Undone
}

// Listener receives the steps of one writer. Its methods are called on the goroutine of
// the call, and concurrently if the writer uses several goroutines.
type Listener interface {
	// At is called at each step, and blocks the caller until it returns. key is
	// comparable. All steps of one transaction have the same key, and transactions that
	// are open at the same time have different keys. A transaction that is retried may
	// begin again under its key.
	At(ctx context.Context, step Step, key any)
	// Note is called with other facts: [Sent], [Joined], [RolledBack], [Refused], [Minted],
	// [Tried], [Repeated] or [Reentered]. It returns at once.
	Note(ctx context.Context, fact any)
	// DropsReply reports whether the answer to the write of key is to be lost. If it
	// returns true, the next step is Unknown instead of Applied. It is called at most
	// once for a transaction that has written: after its commit and before Applied, or
	// before COMMIT is sent by a tracer that cannot change an answer.
	DropsReply(ctx context.Context, key any) bool
	// DropsCommit reports whether the COMMIT of key must not be sent. If it returns true,
	// the caller gets the error of a lost answer. It is called before COMMIT.
	DropsCommit(ctx context.Context, key any) bool
	// IdleTimeout returns how long a guard's transaction may be idle on the server before
	// the server ends it, or 0 for the guard's own timeout. A guard calls it if its
	// server supports idle timeouts.
	IdleTimeout() time.Duration
}

// Sent is a tracer's note: it is about to send SQL, or another request, in the
// transaction of Key.
type Sent struct {
	Driver string // as in "pgx"
	Source any    // a comparable key for the database, or nil
	Key    any
	SQL    string
}

// Joined is a tracer's note: a guard admits a token in the transaction of Key, which the
// caller began.
type Joined struct{ Key any }

// RolledBack is a tracer's note: the transaction of Key continues after a ROLLBACK TO a
// savepoint.
type RolledBack struct{ Key any }

// Refused is a guard's note: it has refused a token, or would have without [Unguarded].
type Refused struct{ Err error }

// Minted is a guard's note: it has minted a number for a lock of the caller's own.
type Minted struct {
	Resource string
	Number   int64
	Holder   string
}

// Tried is a guard's note: it is about to apply a unit of work once.
type Tried struct{ Resource, Key string }

// Repeated is a guard's note: the unit had been applied before, and the call returns its
// first result. The call writes nothing.
type Repeated struct{ Resource, Key string }

// Reentered is a Locker's note: a Hold of the resource nests in a lease that the caller's
// context carries.
type Reentered struct{ Resource string }

// Func is a Listener that receives steps and ignores everything else.
type Func func(ctx context.Context, step Step, key any)

// At implements [Listener].
func (f Func) At(ctx context.Context, step Step, key any) { f(ctx, step, key) }

// Note implements [Listener].
func (Func) Note(context.Context, any) {}

// DropsReply implements [Listener].
func (Func) DropsReply(context.Context, any) bool { return false }

// DropsCommit implements [Listener].
func (Func) DropsCommit(context.Context, any) bool { return false }

// IdleTimeout implements [Listener].
func (Func) IdleTimeout() time.Duration { return 0 }

// Unheard is a write over a traced connection whose context is part of no simulation, so
// no listener receives it.
type Unheard struct {
	Source any // the tracer's key for the database, as in [Sent]
	SQL    string
}

var watchers struct {
	sync.Mutex
	next  int
	calls map[int]func(Unheard)
}

var watched atomic.Int64 // the number of watchers.calls

// WatchUnheard calls f for every write of [NoteUnheard], until stop is called. f must
// return at once.
func WatchUnheard(f func(Unheard)) (stop func()) {
	watchers.Lock()
	defer watchers.Unlock()
	if watchers.calls == nil {
		watchers.calls = map[int]func(Unheard){}
	}
	watchers.next++
	id := watchers.next
	watchers.calls[id] = f
	watched.Store(int64(len(watchers.calls)))
	return func() {
		watchers.Lock()
		defer watchers.Unlock()
		delete(watchers.calls, id)
		watched.Store(int64(len(watchers.calls)))
	}
}

// IsUnheard reports whether ctx is part of no simulation while one is running. A context
// of [Untraced] is part of one.
func IsUnheard(ctx context.Context) bool { return watched.Load() > 0 && sessionOf(ctx) == nil }

// NoteUnheard reports a write under a context for which [IsUnheard] is true to the
// simulations that are running.
func NoteUnheard(write Unheard) {
	watchers.Lock()
	defer watchers.Unlock()
	for _, call := range watchers.calls {
		call(write)
	}
}
