package stdsql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
)

// report calls Hooks.Outcome with the result of an admission. In report-only mode it
// drops refusals, and tokens that could not be compared with the mark, with two
// exceptions: a write still has to claim first, and a mint needs its number. The claim
// before a write reports nothing, since the write itself does.
func (c *call) report(ctx context.Context, block *blocked, err error) (*blocked, error) {
	if !c.DangerouslyReportOnly {
		if !c.quiet {
			err = c.Hooks.Outcome(ctx, err, false)
		}
		return block, err
	}
	again := c.purpose == claimingFirst
	if block != nil && block.txUsable && c.purpose != writing && c.minted == nil {
		if !again {
			c.reportUnchecked(ctx, block)
		}
		return nil, nil
	}
	unfenced := errors.As(err, new(*engine.Error))
	switch {
	case again && (unfenced || guard.IsRefusal(err)):
		return nil, nil
	case unfenced:
		c.callReported(ctx, fmt.Errorf("stdsql: report-only: %w", err))
		return nil, nil
	}
	return block, c.Hooks.Outcome(ctx, err, true)
}

// reportUnchecked reports a token that report-only mode admits without comparing it with
// the mark.
func (c *call) reportUnchecked(ctx context.Context, block *blocked) {
	c.callReported(ctx, fmt.Errorf("stdsql: report-only, %s was not compared with the mark: %w", block.tok, block.err))
}

// callReported calls Hooks.Reported, or logs if there is none.
func (c *call) callReported(ctx context.Context, err error) {
	if c.Hooks.Reported != nil {
		c.Hooks.Reported(ctx, err)
		return
	}
	slog.WarnContext(ctx, err.Error())
}
