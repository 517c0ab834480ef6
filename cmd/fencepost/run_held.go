package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// runHeld is a lock that is held, for a command to run under.
type runHeld struct {
	*runCmd
	lease  *token.Lease
	minder minder
}

// acquire ends the lease's context so early that the program has ended before
// the lock can pass on: --grace before, and what this process may be late.
func (c *runCmd) acquire(ctx context.Context, store runStore) (*runHeld, error) {
	held, late := &runHeld{runCmd: c}, max(c.TTL/10, 10*time.Millisecond)
	host, _ := os.Hostname()
	locker := &token.Locker{
		Issuer: store.Issuer, Name: cmp.Or(host, "fencepost"),
		TTL: c.TTL, Wait: cmp.Or(c.Wait, reach), AtLeast: c.AtLeast, Margin: c.Grace + late,
	}
	locker.Observer.Renewed = func(_ context.Context, _ token.Token, left time.Duration) {
		held.minder.extend(left + c.Grace + late/2)
	}
	acquire := locker.TryAcquire
	if c.Wait > 0 {
		acquire = locker.Acquire
	}
	var err error
	if held.lease, err = acquire(ctx, c.Name); err != nil {
		return nil, err
	}
	// A lock that was waited for may be granted for less than the ttl. Once
	// renewed it is known for how long.
	bound, cancel := context.WithTimeout(held.lease.Context(), reach)
	defer cancel()
	until, err := store.Renew(bound, held.lease.Token(), c.TTL)
	if err != nil {
		return nil, errors.Join(err, held.lease.Release(ctx))
	}
	held.minder.extend(time.Until(until) - late/2)
	return held, nil
}

// release gives the lock back. A lost one is somebody else's, or is so in a
// moment, and whoever could say so did not answer.
func (h *runHeld) release(std streams) {
	if errors.Is(context.Cause(h.lease.Context()), token.ErrLost) {
		return
	}
	if err := h.lease.Release(context.Background()); err != nil {
		h.warn(std, "%v", err)
		return
	}
	h.say(std, "given back")
}

// environment is the command's.
func (h *runHeld) environment() ([]string, error) {
	tok := h.lease.Token()
	field, err := httpguard.Format(tok)
	return append(os.Environ(),
		"FENCING_TOKEN="+field,
		"FENCING_RESOURCE="+tok.Resource,
		fmt.Sprintf("FENCING_NUMBER=%d", tok.Number),
		"FENCING_HOLDER="+tok.Holder), err
}
