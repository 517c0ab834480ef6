package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/token"
)

// ErrNotLeader is returned by [Candidate.IsLeader] and [Candidate.Context] while the
// candidate does not lead.
var ErrNotLeader = errors.New("lock: not the leader")

// Candidate runs for the leadership of Resource. The candidate that holds Resource leads.
// The lease is its term, and the number of the token is the term's number. Locker and
// Resource are required. The fields must not change after first use, and a Candidate must
// not be copied. Its methods are safe for concurrent use.
type Candidate struct {
	// Locker holds the resource. Its WaitTimeout and NoWait do not apply: a candidate waits
	// until its context ends. HoldAtMost bounds a term.
	Locker *Locker
	// Resource is what the leader holds. All candidates, and all writes of the leader, use
	// this name.
	Resource string
	// Value is what an [Observer] reads of the leader, such as its address. It takes the
	// place of the Locker's Name in the holder, so every issuer stores it, and refused
	// writes name it. The rules of [token.ValidateResource] apply to the whole holder; 100
	// bytes always fit. Empty means the Locker's Name.
	Value string

	running atomic.Bool
	term    atomic.Pointer[Lease]
}

// Run campaigns until Resource is granted and claimed, and calls lead. Lead's context
// carries the token, and ends when the lease is lost. Write under that context and through
// a guard.
//
//   - If lead returns while it leads, Run resigns: it releases Resource, and returns the
//     error of lead, joined with [ErrNotReleased] if the issuer did not confirm. The caller
//     decides whether this process runs again, and when.
//   - If the lease was lost, or a guard has refused its token, Run drops the error of lead
//     and campaigns again. It first waits for lead to return: a second lead beside the
//     first would share the process's memory with it, which no token guards.
//   - If lead panics, Run resigns, and the panic continues.
//
// A campaign outlasts an outage: after [token.ErrUnreachable], a failed claim, or a grant
// that came too late, Run campaigns again, after growing, random pauses of about a second
// at most. [log/slog] warns at the second failure in a row.
//
// Run returns the cause of ctx if ctx ends while it campaigns. It returns an error at once
// if the Candidate is running already, if ctx carries a token of Resource, or if a field is
// not valid, and the issuer's error if that is not ErrUnreachable.
func (c *Candidate) Run(ctx context.Context, lead func(ctx context.Context) error) error {
	if c.Locker == nil {
		return errors.New("lock: Candidate has no Locker")
	}
	t, err := c.Locker.settings(c.Resource)
	if err != nil {
		return err
	}
	if e := tokenctx.Find[token.Token](ctx, c.Resource); e != nil && e.Lease != nil && !e.Ended() {
		return fmt.Errorf("lock: Candidate runs inside a Hold of %s", c.Resource)
	}
	if !c.running.CompareAndSwap(false, true) {
		return fmt.Errorf("lock: Candidate for %s is running already", c.Resource)
	}
	defer c.running.Store(false)
	t.waitTimeout, t.noWait = 0, false
	if c.Value != "" {
		t.name = c.Value
	}
	pause := schedule.FirstPause
	for failures := 0; ; {
		began := time.Now()
		led, again, err := c.serve(ctx, t, lead)
		switch {
		case again && ctx.Err() == nil:
		case led || ctx.Err() == nil:
			return err
		default:
			return context.Cause(ctx)
		}
		if failures++; led {
			failures = 0
		}
		if failures == 2 {
			slog.WarnContext(ctx, "lock: a candidate cannot lead", "resource", c.Resource, "error", err)
		}
		if led && time.Since(began) > t.ttl {
			pause = schedule.FirstPause
		}
		sleep(ctx, jitter(pause))
		pause = min(2*pause, longestOutagePause)
	}
}

// serve campaigns once, and serves the term if there is one. led reports whether lead was
// called, and again whether Run must campaign again after err.
func (c *Candidate) serve(ctx context.Context, t settings, lead func(ctx context.Context) error) (led, again bool, err error) {
	held, err := c.Locker.acquire(ctx, t, c.Resource)
	if err != nil {
		again = errors.Is(err, token.ErrUnreachable) || errors.Is(err, token.ErrLost) || errors.Is(err, errClaim)
		return false, again, err
	}
	c.term.Store(held)
	defer func() {
		c.term.Store(nil)
		err = held.finish(ctx, err, held.holdAtLeast)
		_, refused := highestMark(err, held.tok)
		again = refused || errors.Is(err, token.ErrLost)
	}()
	return true, false, lead(held.Context())
}

// IsLeader returns nil if the candidate leads, and [ErrNotLeader] if not, joined with the
// reason if a term has just ended. It sends nothing. It is the Elector of a gocron
// scheduler, where it keeps most instances from starting a job.
//
// It does not make a write safe. A process can be paused between IsLeader and its write,
// and another process can lead and write meanwhile. Write under [Candidate.Context],
// through a guard.
func (c *Candidate) IsLeader(context.Context) error {
	_, err := c.Context()
	return err
}

// Context returns the context of the current term, which is also lead's: it carries the
// token, and ends with the term. It is for work that a scheduler starts, and that therefore
// does not get lead's context. If the candidate does not lead, Context returns
// [ErrNotLeader].
//
// Call it once, when the work begins, before the first read, and write under what it has
// returned. If it is called at the write, the work can have been paused since an earlier
// term of this process: what it has read is then out of date, and the token of the new term
// lets it through.
func (c *Candidate) Context() (context.Context, error) {
	held := c.term.Load()
	if held == nil {
		return nil, fmt.Errorf("%w of %s", ErrNotLeader, c.Resource)
	}
	ctx := held.Context()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w of %s: %w", ErrNotLeader, c.Resource, context.Cause(ctx))
	}
	return ctx, nil
}
