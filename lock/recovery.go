package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/token"
)

// refusal is implemented by guard.StaleError. This package does not import guard.
type refusal interface {
	error
	Stale() (tok token.Token, mark int64)
}

// recoverFrom recovers the issuer if err, the error of the work or of the claim, contains
// a guard's refusal of this lease's token:
//
//  1. The lease is alive, and the guard's mark has its number or a greater one.
//  2. If the issuer had forgotten its numbers, Recover raises it above the mark. The next
//     acquisition is admitted.
//  3. If it had not, the resource was granted to a newer holder, and the lease was lost.
//     recoverFrom joins that loss to err.
func (l *lease) recoverFrom(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	mark, refused := highestMark(err, l.tok)
	if !refused {
		return err
	}
	l.hooks.refused(l, err, mark == l.tok.Number)
	iss, ok := l.issuer.(token.Recoverer)
	if !ok || !schedule.MayHaveForgotten(l.tok.Number, mark, errors.Is(context.Cause(l.ctx), token.ErrLost)) {
		return err
	}
	if failed := l.recoverIssuer(ctx, iss, mark); failed != nil {
		return errors.Join(err, failed)
	}
	l.recovered = true
	l.hooks.recovered(l, mark)
	return err
}

// highestMark returns the greatest mark of all refusals of tok in err's tree. errors.As
// would find only the first.
func highestMark(err any, tok token.Token) (mark int64, refused bool) {
	if r, ok := err.(refusal); ok {
		if t, m := r.Stale(); t == tok {
			mark, refused = m, true
		}
	}
	var below []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		below = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		below = e.Unwrap()
	}
	for _, err := range below {
		m, ok := highestMark(err, tok)
		mark, refused = max(mark, m), refused || ok
	}
	return mark, refused
}

// recoverIssuer raises the issuer above mark. It returns nil if the issuer had forgotten
// its numbers and is now above mark, and a [*token.LostError] if it had not. It returns
// another error if the call failed, or if the resource was recovered too often.
func (l *lease) recoverIssuer(ctx context.Context, iss token.Recoverer, mark int64) error {
	if !recoveries.allowed(l.issuer, l.tok.Resource) {
		return fmt.Errorf("lock: %s: refused as stale, and recovered too often: do two issuers grant this resource?", l.tok)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.ttl)
	defer cancel()
	err := iss.Recover(ctx, l.tok.Resource, mark)
	loss := errors.Is(err, token.ErrLost)
	switch {
	case err != nil && !loss:
	case schedule.Recovered(l.tok.Number, mark, loss):
		recoveries.note(l.issuer, l.tok.Resource)
		return nil
	default:
		return &token.LostError{Token: l.tok, Err: err}
	}
	return fmt.Errorf("lock: recover %s above %d: %w", l.tok.Resource, mark, err)
}

const (
	// recoveriesAllowed bounds the recoveries of one resource within recoveriesWithin. A
	// server that loses its memory needs one or two. Without a bound, two issuers that
	// grant one resource would raise each other for ever.
	recoveriesAllowed = 5
	recoveriesWithin  = time.Minute
)

// recoveries are the recent recoveries of this process.
var recoveries = recoveryLog{at: map[recoveryKey][]time.Time{}}

type recoveryKey struct {
	issuer   token.Issuer
	resource string
}

type recoveryLog struct {
	mu sync.Mutex
	at map[recoveryKey][]time.Time
}

// allowed reports whether one more recovery is allowed now.
func (r *recoveryLog) allowed(iss token.Issuer, resource string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for key, times := range r.at {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) > recoveriesWithin })
		if r.at[key] = times; len(times) == 0 {
			delete(r.at, key)
		}
	}
	return len(r.at[key(iss, resource)]) < recoveriesAllowed
}

func (r *recoveryLog) note(iss token.Issuer, resource string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key(iss, resource)
	r.at[k] = append(r.at[k], time.Now())
}

func key(iss token.Issuer, resource string) recoveryKey {
	if !isComparable(iss) {
		iss = nil
	}
	return recoveryKey{iss, resource}
}
