package token

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// watch ends the lease in time, and renews it in the meantime. All of it ends
// with the lease's context.
func (l *lease) watch(until time.Time, atMost time.Duration) {
	if l.left(until) <= 0 {
		l.lose(errTooLate)
		return
	}
	var last atomic.Pointer[error]
	deadline := time.AfterFunc(l.left(until), func() {
		var err error
		if p := last.Load(); p != nil {
			err = *p
		}
		l.lose(err)
	})
	if atMost > 0 {
		bound := time.AfterFunc(atMost, func() { l.lose(fmt.Errorf("held for AtMost %s", atMost)) })
		context.AfterFunc(l.ctx, func() { bound.Stop() })
	}
	context.AfterFunc(l.ctx, func() { deadline.Stop() })
	go l.keep(until, deadline, &last)
}

var errTooLate = errors.New("the grant arrived after its end: the ttl is shorter than the round trip, or the process was paused")

// left is how long the context may still run.
func (l *lease) left(until time.Time) time.Duration { return time.Until(until) - l.margin }

// keep renews every third of the ttl, and sooner after a failure, for as long
// as the context lives.
func (l *lease) keep(until time.Time, deadline *time.Timer, last *atomic.Pointer[error]) {
	for pause := l.ttl / 3; sleep(l.ctx, pause); {
		renewed, err := l.renew(until)
		switch {
		case errors.Is(err, ErrLost):
			l.lose(err)
			return
		case err != nil:
			last.Store(&err)
			pause = l.ttl / 20
		case !deadline.Stop():
			return // it has fired: lost is lost, though the renewal came through
		default:
			until, pause = renewed, l.ttl/3
			deadline.Reset(l.left(until))
		}
	}
}

// renew is cut off when the lease ends, and after a third of the ttl, so that
// one lost packet leaves time for another try; but not by Release, since that
// would cost the connection it is on.
func (l *lease) renew(until time.Time) (time.Time, error) {
	bound := min(l.left(until), l.ttl/3)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), bound)
	defer cancel()
	return l.issuer.Renew(ctx, l.tok, l.ttl)
}
