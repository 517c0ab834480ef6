package sqlpoint

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/sqltext"
)

// transaction is the open transaction of a connection, or a statement outside of one.
type transaction struct {
	ctx     context.Context // the last one with a listener
	key     any
	byGuard bool // a guard has begun it, and reports its steps
	wrote   bool
}

// Traced marks the transaction as a tracer's. A simulation treats every other key as a
// guard's.
func (*transaction) Traced() {}

// begin reports the start of a transaction, if there is a listener. It stores the state
// before it calls the listener, which may never return.
func (c *conn) begin(ctx context.Context) {
	if !failpoint.Listening(ctx) {
		return
	}
	t := &transaction{ctx: ctx, key: failpoint.Key(ctx)}
	if t.byGuard = t.key != nil && !c.inTx; !t.byGuard { // in a transaction, the caller has begun it under another context
		t.key = t
	}
	c.open = t
	c.report(failpoint.Begin)
}

// report reports a step, unless a guard has begun the transaction and reports it.
func (c *conn) report(step failpoint.Step) {
	if t := c.open; t != nil && !t.byGuard {
		failpoint.At(t.ctx, step, t.key)
	}
}

// end reports the end of the transaction.
func (c *conn) end(step failpoint.Step) {
	t := c.open
	c.open, c.inTx = nil, false
	if t != nil && !t.byGuard {
		failpoint.At(t.ctx, step, t.key)
	}
}

// finish ends the transaction with the outcome of its COMMIT, or of a statement outside
// of one.
func (c *conn) finish(err error) {
	step := failpoint.Undone
	switch {
	case c.open == nil || !c.open.wrote:
	case err == nil:
		step = failpoint.Applied
	case !notApplied(err):
		step = failpoint.Unknown
	}
	c.end(step)
}

// dropReply returns err, the error of a COMMIT or of a statement outside of a
// transaction. If err is nil and the simulation drops the reply, it returns the error of
// a connection that broke before the reply was read.
func (c *conn) dropReply(err error) error {
	t := c.open
	if err == nil && t != nil && !t.byGuard && t.wrote && failpoint.DropsReply(t.ctx, t.key) {
		return failpoint.ErrLost
	}
	return err
}

// countedVerbs are the verbs whose RowsAffected shows whether they wrote.
var countedVerbs = []string{"INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "WITH"}

func (c *conn) exec(ctx context.Context, query string, run func() (driver.Result, error)) (driver.Result, error) {
	if c.open == nil && !failpoint.Listening(ctx) {
		c.noteUnheard(ctx, query)
		result, err := run()
		c.track(query, err)
		return result, err
	}
	verb := c.start(ctx, query)
	result, err := run()
	wrote := !sqltext.Reads(query)
	if wrote && err == nil && slices.Contains(countedVerbs, verb) {
		n, unknown := result.RowsAffected()
		wrote = unknown != nil || n > 0
	}
	if failed := c.done(verb, query, wrote, err); failed != err { //nolint:errorlint // whether it is the same
		return nil, failed
	}
	return result, err
}

// query reports the end of a statement outside of a transaction when its rows are closed:
// some drivers execute it while the rows are read.
func (c *conn) query(ctx context.Context, query string, run func() (driver.Rows, error)) (driver.Rows, error) {
	if c.open == nil && !failpoint.Listening(ctx) {
		c.noteUnheard(ctx, query)
		base, err := run()
		c.track(query, err)
		return base, err
	}
	verb := c.start(ctx, query)
	base, err := run()
	if err != nil || c.inTx {
		if failed := c.done(verb, query, !sqltext.Reads(query), err); err == nil && failed != nil {
			return nil, errors.Join(failed, base.Close())
		}
		return base, err
	}
	return &rows{Rows: base, done: func(err error) error { return c.done(verb, query, !sqltext.Reads(query), err) }}, nil
}

// start reports what a statement will do, and returns its verb.
func (c *conn) start(ctx context.Context, query string) string {
	verb := sqltext.Verb(query)
	if c.open != nil && failpoint.Listening(ctx) {
		c.open.ctx = ctx
	}
	defer c.noteSent(query)
	switch {
	case verb == "":
	case c.open == nil && verb != "COMMIT" && verb != "ROLLBACK":
		c.begin(ctx)
	case c.open == nil:
	case verb == "COMMIT":
		c.report(failpoint.Commit)
	case verb != "ROLLBACK" && verb != "SAVEPOINT" && verb != "RELEASE" && failpoint.Key(ctx) == nil:
		failpoint.At(c.open.ctx, failpoint.Statement, c.open.key)
	}
	if c.open != nil && !c.open.byGuard && failpoint.Key(ctx) != nil {
		failpoint.Note(ctx, failpoint.Joined{Key: c.open.key})
	}
	return verb
}

// done reports the outcome of a statement that was, or has ended, a transaction. It
// returns err, or the error of a dropped reply.
func (c *conn) done(verb, query string, wrote bool, err error) error {
	if c.open != nil && verb != "COMMIT" && verb != "ROLLBACK" {
		c.open.wrote = c.open.wrote || wrote && (err == nil || !c.inTx)
	}
	switch {
	case verb == "SAVEPOINT" && err == nil && c.open != nil && sqltext.RollsBackTo(query):
		failpoint.Note(c.open.ctx, failpoint.RolledBack{Key: c.open.key})
	case verb == "BEGIN" && err == nil:
		c.inTx = true
	case verb == "ROLLBACK", !c.inTx && errors.Is(err, driver.ErrBadConn): // ErrBadConn promises that nothing ran
		c.end(failpoint.Undone)
	case verb == "COMMIT", !c.inTx:
		err = c.dropReply(err)
		c.finish(err)
	}
	return err
}

// track follows transactions that begin and end by statements without a listener.
func (c *conn) track(query string, err error) {
	switch sqltext.Verb(query) {
	case "BEGIN":
		c.inTx = c.inTx || err == nil
	case "COMMIT", "ROLLBACK":
		c.inTx = false
	}
}

// noteSent records a statement of the transaction that has begun.
func (c *conn) noteSent(query string) {
	if t := c.open; t != nil && sqltext.Verb(query) != "" {
		failpoint.Note(t.ctx, failpoint.Sent{Driver: "database/sql", Source: c.source, Key: t.key, SQL: query})
	}
}

// noteUnheard reports a write that no listener receives.
func (c *conn) noteUnheard(ctx context.Context, query string) {
	if failpoint.IsUnheard(ctx) && sqltext.Writes(query) {
		failpoint.NoteUnheard(failpoint.Unheard{Source: c.source, SQL: query})
	}
}

// sqliteCodes are SQLite's codes that mean that nothing was applied: ERROR, BUSY, LOCKED,
// READONLY, INTERRUPT, FULL, CONSTRAINT.
var sqliteCodes = []int{1, 5, 6, 8, 9, 13, 19}

// unknownClasses are the classes of SQLSTATE that leave the outcome of a COMMIT unknown:
// connection, operator, system and internal errors.
var unknownClasses = []string{"", "08", "57", "58", "XX"}

// notApplied reports whether err, of a COMMIT or of a statement outside of a transaction,
// means that nothing was applied.
func notApplied(err error) bool {
	var (
		standard interface{ SQLState() string }
		coded    interface{ Code() int }
	)
	switch {
	case errors.Is(err, driver.ErrSkip):
		return true
	case errors.As(err, &standard):
		code := standard.SQLState()
		return !slices.Contains(unknownClasses, code[:min(2, len(code))])
	case errors.As(err, &coded):
		return slices.Contains(sqliteCodes, coded.Code()&0xff) // without the extended part
	}
	return strings.Contains(err.Error(), "commit unexpectedly resulted in rollback") // pgx
}
