package stdsql

import (
	"context"
	"reflect"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/token"
)

// step is a step of a transaction, for a simulation. Only this file uses the simulation's
// switch.
type step = failpoint.Step

const (
	stepBegin    = failpoint.Begin
	stepAdmitted = failpoint.Admitted
	stepCommit   = failpoint.Commit
	stepApplied  = failpoint.Applied
	stepUndone   = failpoint.Undone
	stepUnknown  = failpoint.Unknown
)

var (
	// errReplyLost is the error of a COMMIT whose reply a simulation has dropped.
	errReplyLost = failpoint.ErrLost
	// withKey returns ctx with the key of the transaction that its statements belong to.
	withKey = failpoint.WithKey
	// asClaim returns ctx for a transaction that a simulation counts as a claim from its
	// first step on, whether it succeeds or not.
	asClaim = failpoint.Claim
)

func (t *transaction) at(ctx context.Context, s step) { failpoint.At(ctx, s, t) }

// untraced returns a context for statements of the guard's own, which are no part of the
// write.
func untraced(ctx context.Context) context.Context {
	if failpoint.Listening(ctx) {
		return failpoint.Untraced(ctx)
	}
	return ctx
}

// joinSteps reports the admission as a statement of the caller's transaction. It returns
// a function that reports its success.
func joinSteps(ctx context.Context, tx Tx) (admitted func()) {
	if !failpoint.Listening(ctx) {
		return func() {}
	}
	var key any = new(transaction)
	if reflect.ValueOf(tx).Comparable() {
		key = tx
	}
	failpoint.At(ctx, failpoint.Statement, key)
	return func() { failpoint.At(ctx, failpoint.Admitted, key) }
}

func noteTried(ctx context.Context, u *unit) {
	failpoint.Note(ctx, failpoint.Tried{Resource: u.resource, Key: u.Key})
}

func noteRepeated(ctx context.Context, u *unit) {
	failpoint.Note(ctx, failpoint.Repeated{Resource: u.resource, Key: u.Key})
}

func noteMinted(ctx context.Context, tok token.Token) {
	failpoint.Note(ctx, failpoint.Minted{Resource: tok.Resource, Number: tok.Number, Holder: tok.Holder})
}

// forSimulation returns a copy with the changes of a simulation. If ctx belongs to the
// unguarded twin, the guard is in report-only mode and does not log. Otherwise, on
// PostgreSQL only, it has the simulation's IdleTimeout: MySQL's is in whole seconds.
func (g *Guard) forSimulation(ctx context.Context) *Guard {
	changed := *g
	switch {
	case failpoint.IsUnguarded(ctx):
		changed.DangerouslyReportOnly = true
		if changed.Hooks.Reported == nil {
			changed.Hooks.Reported = func(context.Context, error) {}
		}
	case g.Dialect == Postgres:
		changed.IdleTimeout = failpoint.IdleTimeout(ctx, g.IdleTimeout)
	}
	return &changed
}

// dropsCommit reports whether a simulation drops the COMMIT, so that it must not be sent.
// Then the connection is closed, as by dropsReply.
func (t *transaction) dropsCommit(ctx context.Context) bool {
	t.discardConn = t.fnStarted && !t.isLocal() && failpoint.DropsCommit(ctx, t)
	return t.discardConn
}

// dropsReply reports whether a simulation drops the reply to the COMMIT. Then the
// connection is closed. The reply to a claim is not dropped, since a claim writes nothing
// of the caller's. SQLite has no connection to lose: closing it would delete an in-memory
// database.
func (t *transaction) dropsReply(ctx context.Context) bool {
	t.discardConn = t.fnStarted && !t.isLocal() && failpoint.DropsReply(ctx, t)
	return t.discardConn
}
