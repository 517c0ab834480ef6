package sqlguard

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/point"
)

// packet is what a call sends at once:
//
//	BEGIN · the admissions · the body · COMMIT
//
// A refused admission raises an error, behind which the server passes over
// everything up to the end of the packet: the body never runs.
type packet struct {
	begin  *pgx.TxOptions // nil inside the caller's transaction
	body   []*pgx.QueuedQuery
	commit string // empty where the transaction goes on
	bare   bool   // it may go without BEGIN and COMMIT: see bare.go
}

// send sends the packet and reads the answers up to the body's. Where the
// error is not nil, everything is closed, rolled back, and given back.
func (c *call) send(ctx context.Context, p packet) (*flight, error) {
	f := &flight{call: c, caller: ctx, batch: &pgx.Batch{}, commits: p.commit != ""}
	c.at(ctx, point.Begin)
	ctx, f.land = steady(ctx)
	if p.begin != nil || len(p.body) == 0 { // what is not the caller's own
		ctx = point.Within(ctx, c)
	}
	db, err := c.db, error(nil)
	if p.bare {
		db, err = f.borrow(ctx, db)
	}
	if p.begin != nil && !f.bare {
		f.batch.BeginTx(*p.begin)
	}
	for _, tok := range c.toks {
		f.batch.Queue(c.admit.sql, c.admit.args(tok)...)
	}
	for _, q := range p.body {
		// Copied: pgx rewrites a query in place for the connection it is sent
		// on, and the next attempt may be on another. Callbacks are ours to run.
		f.batch.Queue(q.SQL, q.Arguments...)
	}
	if f.commits && !f.bare {
		f.batch.Queue(p.commit)
	}
	panicked := true
	defer func() {
		if panicked { // an argument's own method, or the observer: the connection must not be lost with it
			f.drop(errPanicked)
		}
	}()
	if err != nil {
		f.results = pgx.FailedBatchResults(f.batch, err)
	} else {
		f.results = db.SendBatch(ctx, f.batch) // having waited for a connection
	}
	f.sent = time.Now()
	err = c.answers(f, p.begin != nil && !f.bare)
	panicked = false
	return f, err
}

func (c *call) answers(f *flight, begun bool) error {
	if begun {
		if f.tx = f.results.Tx(); f.tx == nil {
			return f.fail(errNoBegin)
		}
		f.conn = f.tx.Conn() // nil where there was no connection to be had
		if _, err := f.results.Exec(); err != nil {
			return f.fail(c.wrap(err))
		}
		f.begun = true
	}
	for _, tok := range c.toks {
		if err := c.admit.read(f.caller, f.results, tok); err != nil {
			return c.refused(f, tok, err)
		}
		f.begun = true
	}
	return nil
}
