package pgwrite

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/sqltext"
	"github.com/fencepost/fencepost/token"
)

const (
	stepBegin     = failpoint.Begin
	stepAdmitted  = failpoint.Admitted
	stepStatement = failpoint.Statement
	stepCommit    = failpoint.Commit
	stepApplied   = failpoint.Applied
	stepUndone    = failpoint.Undone
	stepUnknown   = failpoint.Unknown
)

// simulated returns the Config for a simulation. If ctx belongs to the unguarded twin,
// the Config is in report-only mode and logs no warning. Otherwise it has the
// simulation's IdleTimeout, after which paused holders are evicted.
func (c *Config) simulated(ctx context.Context) *Config {
	if !failpoint.IsUnguarded(ctx) {
		if idle := failpoint.IdleTimeout(ctx, c.IdleTimeout); idle != c.IdleTimeout {
			bounded := *c
			bounded.IdleTimeout = idle
			return &bounded
		}
		return c
	}
	twin := *c
	twin.DangerouslyReportOnly = true
	if twin.Hooks.Reported == nil {
		twin.Hooks.Reported = func(context.Context, error) {}
	}
	return &twin
}

// asClaim returns ctx for a call whose transaction is a claim from its first step on,
// whether it succeeds or not.
func asClaim(ctx context.Context) context.Context { return failpoint.Claim(ctx) }

// at reports a step of the call's transaction to a listener. For the caller's transaction
// it reports only the steps before and after the admission.
func (c *Call) at(step failpoint.Step) {
	tx, inTx := c.db.(pgx.Tx)
	switch {
	case !inTx:
		failpoint.At(c.caller, step, c)
	case step == failpoint.Admitted, step == failpoint.Statement:
		failpoint.At(c.caller, step, tracedAs(tx.Conn()))
	}
}

// reportedSteps returns a context for the driver: the call itself reports the steps.
func (c *Call) reportedSteps(ctx context.Context) context.Context { return failpoint.WithKey(ctx, c) }

// untraced returns a context for statements of the guard's own, which are no part of the
// write.
func untraced(ctx context.Context) context.Context {
	if failpoint.Listening(ctx) {
		return failpoint.Untraced(ctx)
	}
	return ctx
}

// dropReply is called after a COMMIT, and dropCommit before it. If a simulation drops the
// reply or the COMMIT, they close the connection and return the driver's error for a lost
// reply.
func (c *Call) dropReply(conn *pgx.Conn) error  { return c.drop(conn, failpoint.DropsReply) }
func (c *Call) dropCommit(conn *pgx.Conn) error { return c.drop(conn, failpoint.DropsCommit) }

func (c *Call) drop(conn *pgx.Conn, drops func(ctx context.Context, key any) bool) error {
	if c.InTx() || !drops(c.caller, c) { // the COMMIT of a caller's transaction is not the guard's
		return nil
	}
	_ = conn.Close(c.caller)
	return failpoint.ErrLost
}

// Wrote records whether tag shows that the body has written. Marks do not count.
func (s *Sent) Wrote(tag pgconn.CommandTag) {
	s.wrote = s.request.tx != claimTx && sqltext.Wrote(tag.String())
}

// WroteAll records that the body may have written, whatever its tags are.
func (s *Sent) WroteAll() { s.wrote = true }

func noteTried(ctx context.Context, resource, key string) {
	failpoint.Note(ctx, failpoint.Tried{Resource: resource, Key: key})
}

func noteRepeated(ctx context.Context, resource, key string) {
	failpoint.Note(ctx, failpoint.Repeated{Resource: resource, Key: key})
}

func noteMinted(ctx context.Context, tok token.Token) {
	failpoint.Note(ctx, failpoint.Minted{Resource: tok.Resource, Number: tok.Number, Holder: tok.Holder})
}

// tracedAs returns the key that a tracer of conn uses for the open transaction, or conn
// if there is none.
func tracedAs(conn *pgx.Conn) any {
	if conn == nil {
		return conn
	}
	if key, traced := conn.PgConn().CustomData()[failpoint.CustomDataKey]; traced {
		return key
	}
	return conn
}

// lastStep returns the last step of a transaction whose error is err.
func lastStep(err error) failpoint.Step { return failpoint.LastStep(err, guard.ErrUnknown) }
