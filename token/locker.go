package token

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	defaultTTL = 10 * time.Second
	// leastMargin covers the scheduling latency of a busy machine: the timer
	// that ends a lease may run this much too late.
	leastMargin = 10 * time.Millisecond
)

// Locker holds resources for a program: it asks its Issuer, waits, renews, and
// gives back. Only Issuer is required. A Locker is cheap and safe for
// concurrent use; its fields must not change after first use.
type Locker struct {
	// Issuer grants the tokens. Lockers with one issuer may nest: see Hold.
	Issuer Issuer
	// Name is the readable part of the holder in errors and marks. Empty
	// means the name of the running program.
	Name string
	// TTL is how long the resource stays held when this process dies. It is
	// renewed three times in that span. Zero means 10 s. It must be twice the
	// Margin or more: 20 ms at least where that is not set.
	TTL time.Duration
	// Wait bounds the waiting for a resource (each of them, in HoldAll, and anew
	// where a claim has healed the issuer), and nothing else: the work that follows is not bounded by it. Zero means no
	// bound but the context's. Two programs that take two locks in opposite
	// orders wait for each other for ever without a bound, since both renew.
	Wait time.Duration
	// AtMost ends the lease this long after it was granted although it
	// renews, so that a hung job does not hold its resource for ever. The
	// context ends with ErrLost; others get the resource when the ttl has
	// passed. Zero means no bound.
	AtMost time.Duration
	// Margin is how long before the issuer's expiry the lease's context ends.
	// It must cover the latency of this process's scheduler and the drift of
	// its clock during one TTL. Zero means a tenth of the TTL, at least 10 ms.
	// More than half of the TTL is an error: the first renewal is sent after a
	// third of it, and its reply has to arrive before the context ends.
	Margin time.Duration
	// Claim, if not nil, is called once for each new token and Locker, before
	// the work begins and while the lease is already being renewed: a guard's
	// Admit, say. Claiming before the first read is what makes
	// read-modify-write safe; a fence on the write alone still loses updates.
	// Where it fails, the resource is given back and nothing was held.
	//
	// A re-entry (see Hold) claims too where the lease came from another
	// Locker; a copy of one is another. Where that fails, the outer lease
	// stays as it was, and the next re-entry claims again. Re-entries that run
	// at the same time may each claim. Do not re-enter like this from within
	// a transaction that was the first to admit the token: a claim on another
	// connection waits for it to end.
	Claim func(ctx context.Context, tok Token) error
	// AtLeast keeps the resource held this long after it was granted, although
	// it is released earlier: on a schedule, a short job is then not run again
	// by a machine whose clock is behind. Nobody holds it meanwhile, and who
	// waits for it may notice its end late, by up to a TTL. Where the
	// process dies first, the TTL ends it. Zero means that a release frees at once.
	AtLeast time.Duration
	// Observer is told what happens.
	Observer Observer
}

// terms are a Locker's settings with the defaults put in.
type terms struct {
	name        string
	ttl, margin time.Duration
	wait        time.Duration
	atLeast     time.Duration
	atMost      time.Duration
}

func (l *Locker) terms(resource string) (terms, error) {
	t := terms{name: l.Name, ttl: l.TTL, margin: l.Margin, wait: l.Wait, atLeast: l.AtLeast, atMost: l.AtMost}
	if t.name == "" {
		t.name = program
	}
	if t.ttl == 0 {
		t.ttl = defaultTTL
	}
	if t.margin == 0 {
		t.margin = max(t.ttl/10, leastMargin)
	}
	switch {
	case l.Issuer == nil:
		return t, errors.New("token: Locker has no Issuer")
	case t.ttl < 0 || t.margin < 0 || t.wait < 0 || t.atLeast < 0 || t.atMost < 0:
		return t, errors.New("token: Locker has a negative duration")
	case t.atMost > 0 && t.atLeast > t.atMost:
		return t, fmt.Errorf("token: Locker's AtLeast %s is more than its AtMost %s", t.atLeast, t.atMost)
	case t.margin > t.ttl/2:
		return t, fmt.Errorf("token: Locker's margin %s is more than half of its ttl %s", t.margin, t.ttl)
	}
	return t, CheckResource(resource)
}
