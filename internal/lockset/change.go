package lockset

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/internal/child"
	"github.com/fencepost/fencepost/token"
)

// change reads, works and writes.
func (a *adder) change(ctx context.Context, tok token.Token, value int64, from reader, to executor) error {
	s, err := readSet(ctx, from, a.set)
	if err != nil {
		return err
	}
	if err := a.stand(atWork); err != nil {
		return err
	}
	if err := sleep(ctx, time.Duration(a.random.Int64N(int64(a.Work)))); err != nil {
		return err
	}
	if err := a.check(ctx, tok, from); err != nil {
		return err
	}
	if err := a.stand(atWrite); err != nil {
		return err
	}
	return s.plus(value, tok).write(ctx, to)
}

// check is what check-then-write does for safety.
func (a *adder) check(ctx context.Context, tok token.Token, from reader) error {
	if a.way != CheckThenWrite {
		return nil
	}
	now, err := readSet(ctx, from, a.set)
	if err != nil {
		return err
	}
	return now.mark.Admits(tok)
}

func (a *adder) stand(here step) error {
	if a.Stand != here {
		return nil
	}
	return child.StopThread()
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
