package sqlguard

import (
	"context"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// call is one use of a Guard: what is admitted, where, and how.
type call struct {
	*Guard
	db    DB
	stmts *statements
	toks  []token.Token // in the order in which they are admitted
	admit admission
}

// admission is the statement that admits one token, and how its answer is
// read. The error is the server's or the connection's.
type admission struct {
	sql  string
	args func(tok token.Token) []any
	read func(ctx context.Context, br pgx.BatchResults, tok token.Token) error
}

// call finds the tokens of the resources. Observe-only mode goes on without
// those that are missing.
func (g *Guard) call(ctx context.Context, db DB, resources ...string) (*call, error) {
	if err := check(db); err != nil {
		return nil, err
	}
	g = g.simulated(ctx)
	c := &call{Guard: g, db: db, stmts: statementsOf(g.Schema), toks: make([]token.Token, 0, len(resources))}
	for _, resource := range resources {
		tok, err := token.FromContext(ctx, resource)
		if err == nil {
			c.toks = append(c.toks, tok)
		} else if err = g.Observer.Judge(ctx, err, g.DangerouslyObserve); err != nil {
			return nil, guard.WithLoss(ctx, err)
		}
	}
	return c, nil
}

// claimed, in place of a time to wait, admits only where the mark is the token's
// already. A token that has yet to raise the mark does so in a short transaction
// of its own: in a long one the raise would stay uncommitted, and to others the
// writer would look like one of the token before.
const claimed = -1

// by has the call admit with the statement, or observe. wait is how many
// milliseconds a raise waits for older writers.
func (c *call) by(sql string, wait int32) *call {
	c.admit = admission{sql: sql, read: execute}
	idle := c.bound()
	switch {
	case c.DangerouslyObserve:
		c.admit = admission{sql: c.stmts.observe, read: c.observe}
	case sql == c.stmts.admitBounded && idle == 0:
		c.admit.sql = c.stmts.admit
	}
	c.admit.args = func(tok token.Token) []any {
		args := []any{tok.Resource, tok.Number, tok.Holder, wait}
		if c.admit.sql == c.stmts.admitBounded {
			args = append(args, strconv.Itoa(int(idle))+"ms")
		}
		return args
	}
	return c
}

func execute(_ context.Context, br pgx.BatchResults, _ token.Token) error {
	_, err := br.Exec()
	return err
}

// sorted returns the names once each and in bytewise order: two callers that
// admit the same resources never wait for each other in a circle.
func sorted(resources []string) ([]string, error) {
	if len(resources) == 0 {
		return nil, errNoResources
	}
	names := slices.Clone(resources)
	slices.Sort(names)
	return slices.Compact(names), nil
}
