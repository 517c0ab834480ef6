package sqlpoint

import (
	"context"

	"github.com/fencepost/fencepost/internal/point"
)

// transaction is one that is open on a connection, or that a statement outside
// of one is.
type transaction struct {
	ctx   context.Context // the last that listened
	key   any
	told  bool // by the library, which began it
	wrote bool
}

// begin tells of a transaction, if somebody listens. What has to be known of it
// is remembered before anybody is told, who may never return.
func (c *conn) begin(ctx context.Context) {
	if !point.Listening(ctx) {
		return
	}
	t := &transaction{ctx: ctx, key: point.Key(ctx)}
	if t.told = t.key != nil; !t.told {
		t.key = t
	}
	c.open = t
	c.tell(point.Begin)
}

// tell tells what the library, which began the transaction, does not.
func (c *conn) tell(step point.Step) {
	if t := c.open; t != nil && !t.told {
		point.At(t.ctx, step, t.key)
	}
}

// end tells that the transaction is over.
func (c *conn) end(step point.Step) {
	t := c.open
	c.open, c.inside = nil, false
	if t != nil && !t.told {
		point.At(t.ctx, step, t.key)
	}
}

// settle ends the transaction by what its COMMIT was answered, or a statement
// outside of one.
func (c *conn) settle(err error) {
	step := point.Undone
	switch {
	case c.open == nil || !c.open.wrote:
	case err == nil:
		step = point.Applied
	case !refused(err):
		step = point.Unknown
	}
	c.end(step)
}
