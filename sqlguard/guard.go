package sqlguard

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
)

const defaultIdle = 5 * time.Second

// Guard admits tokens in the transactions that write. Only DB is required. A
// Guard is cheap and, where its DB is, safe for concurrent use; its fields
// must not change after first use. The token comes from the context, the
// resource from the caller: see [token.FromContext] for the errors of a
// context that has none, which reach nothing.
type Guard struct {
	// DB is where the resource is written and its mark is kept.
	DB DB
	// Schema is the schema of the marks, as given to package migrations.
	// Empty means "fencepost". The search_path does not matter.
	Schema string
	// Tx are the options of the transactions that Update, UpdateAll and On
	// begin. A token that has yet to raise the mark does so in a transaction
	// of its own first, so that the snapshot of REPEATABLE READ and
	// SERIALIZABLE is younger than the last older write. Read only is an error.
	Tx pgx.TxOptions
	// Idle bounds how long a holder that was paused inside a transaction can
	// keep its successor waiting. Zero means 5 s; give the lease's ttl if that
	// is less. Negative means no bound at all.
	//
	// It is the longest that a transaction of Update, UpdateAll or Join may be
	// idle, unless the session's own idle_in_transaction_session_timeout is
	// shorter: then the server ends it, and its writer is told
	// [guard.ErrEvicted]. Some pauses escape that, inside COPY FROM STDIN or
	// with a result that nobody reads. So it is also how long a newer token
	// waits for older writers, before it ends their sessions and goes in.
	// Where the role may not do that, it waits on until its context ends.
	// Inside a pgx.Tx it ends nobody's session, since that takes a second
	// connection: the error is [guard.ErrRetryable]. A token that was claimed
	// before (see [Guard.Admit]) never waits there.
	Idle time.Duration
	// DangerouslyObserve judges every token and refuses none. What would have
	// been refused goes to Observer, and the write goes on unguarded, as it
	// does for a newer token that older writers keep waiting for longer than
	// Idle. Nobody's session is ended or bounded. [guard.ErrClaimFirst] and
	// the ordinary errors remain.
	DangerouslyObserve bool
	// Observer is told of refusals.
	Observer guard.Observer
}

// Update is [Guard.Update] of a Guard that has only a DB: what most programs
// need.
func Update(ctx context.Context, db DB, resource string, fn func(tx pgx.Tx) error) error {
	return (&Guard{DB: db}).Update(ctx, resource, fn)
}

// bound returns Idle in milliseconds, 0 for none.
func (g *Guard) bound() int32 {
	idle := g.Idle
	switch {
	case idle < 0:
		return 0
	case idle == 0:
		idle = defaultIdle
	}
	// Rounded up: half a millisecond must not become none.
	return int32(min((idle+time.Millisecond-1)/time.Millisecond, math.MaxInt32))
}
