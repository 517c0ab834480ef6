package sqlpoint

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/internal/sqltext"
)

// counted are the verbs whose RowsAffected tells whether they wrote.
var counted = []string{"INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "WITH"}

func (c *conn) exec(ctx context.Context, query string, run func() (driver.Result, error)) (driver.Result, error) {
	if c.open == nil && !point.Listening(ctx) {
		result, err := run()
		c.track(query, err)
		return result, err
	}
	verb := c.start(ctx, query)
	result, err := run()
	wrote := !sqltext.Reads(query)
	if wrote && err == nil && slices.Contains(counted, verb) {
		n, unknown := result.RowsAffected()
		wrote = unknown != nil || n > 0
	}
	c.done(verb, wrote, err)
	return result, err
}

// query tells the end of a statement outside of a transaction when its rows are
// closed: some drivers run it while they are read.
func (c *conn) query(ctx context.Context, query string, run func() (driver.Rows, error)) (driver.Rows, error) {
	if c.open == nil && !point.Listening(ctx) {
		base, err := run()
		c.track(query, err)
		return base, err
	}
	verb := c.start(ctx, query)
	base, err := run()
	if err != nil || c.inside {
		c.done(verb, !sqltext.Reads(query), err)
		return base, err
	}
	return &rows{Rows: base, done: func(err error) { c.done(verb, !sqltext.Reads(query), err) }}, nil
}

// start tells what a statement is about to do, and returns its verb.
func (c *conn) start(ctx context.Context, query string) string {
	verb := sqltext.Verb(query)
	if c.open != nil && point.Listening(ctx) {
		c.open.ctx = ctx
	}
	switch {
	case verb == "":
	case c.open == nil && verb != "COMMIT" && verb != "ROLLBACK":
		c.begin(ctx)
	case c.open == nil:
	case verb == "COMMIT":
		c.tell(point.Commit)
	case verb != "ROLLBACK" && verb != "SAVEPOINT" && verb != "RELEASE" && point.Key(ctx) == nil:
		point.At(c.open.ctx, point.Statement, c.open.key)
	}
	return verb
}

// done tells what a statement has come to, where it was a transaction or has
// ended one.
func (c *conn) done(verb string, wrote bool, err error) {
	if c.open != nil && verb != "COMMIT" && verb != "ROLLBACK" {
		c.open.wrote = c.open.wrote || wrote && (err == nil || !c.inside)
	}
	switch {
	case verb == "BEGIN" && err == nil:
		c.inside = true
	case verb == "ROLLBACK", !c.inside && errors.Is(err, driver.ErrBadConn): // a promise that nothing ran
		c.end(point.Undone)
	case verb == "COMMIT", !c.inside:
		c.settle(err)
	}
}

// track follows transactions that begin and end by statements to which nobody
// listens.
func (c *conn) track(query string, err error) {
	switch sqltext.Verb(query) {
	case "BEGIN":
		c.inside = c.inside || err == nil
	case "COMMIT", "ROLLBACK":
		c.inside = false
	}
}
