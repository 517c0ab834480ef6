package leader

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Candidate stands for election. All instances have one role and one issuer.
type Candidate struct {
	Locks *token.Locker // without a Wait: candidates have time
	Role  string
	// Lead works until its context ends, or returns sooner to step down.
	Lead func(ctx context.Context) error
	// Pause is what a candidate waits after a failure, twice as long after the
	// next one, and up to a hundred times as long. It must be above 0.
	Pause time.Duration
}

// Run stands, leads and stands again until ctx ends, whose cause it returns.
func (c *Candidate) Run(ctx context.Context) error {
	for pause := c.Pause; ; {
		led := false
		err := c.Locks.Hold(ctx, c.Role, func(ctx context.Context) error {
			led = true
			return c.Lead(ctx)
		})
		next := After(err)
		slog.InfoContext(ctx, "leader: a term has ended", "role", c.Role, "led", led, "next", next, "error", err)
		switch next {
		case StandAgain:
			pause = 0
		case PauseFirst:
			pause = min(max(2*pause, c.Pause), 100*c.Pause)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// Next is what a candidate does after a term.
type Next string

// What a candidate does next.
const (
	StandAgain Next = "stand again" // somebody else leads, or may
	PauseFirst Next = "pause first" // this instance, or the lock, does not work
)

// After says what to do after a term that ended with err, of Hold. One that was
// lost may have failed for that reason alone.
func After(err error) Next {
	for _, deposed := range []error{token.ErrLost, token.ErrHeld, guard.ErrStale} {
		if errors.Is(err, deposed) {
			return StandAgain
		}
	}
	return PauseFirst
}
