package tokentest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	hurry = 80 * time.Millisecond   // a ttl that passes often
	rush  = 1500 * time.Millisecond // how long the crowd keeps coming
)

// span is a time in which a holder was entitled to believe that it holds.
type span struct {
	holder   string
	from, to time.Time
}

// ask is an Acquire, or a Wait.
type ask func(ctx context.Context, worker int, holder string) (token.Grant, error)

func oneHolderAtATime(p *probe) {
	p.visited(func(ctx context.Context, _ int, holder string) (token.Grant, error) {
		return p.iss.Acquire(ctx, p.resource, holder, hurry)
	})
}

func (p *probe) visited(by ask) {
	var mu sync.Mutex
	var spans []span
	start := time.Now()
	p.crowded(func(ctx context.Context, worker int) error {
		for round := 0; time.Since(start) < rush; round++ {
			s, err := p.visit(ctx, by, worker, round)
			if err != nil {
				return err
			}
			mu.Lock()
			spans = append(spans, s)
			mu.Unlock()
		}
		return nil
	})
	p.disjoint(spans)
}

// visit tries to hold once: for a moment, until it is renewed, or for longer
// than the ttl.
func (p *probe) visit(ctx context.Context, by ask, worker, round int) (span, error) {
	s := span{holder: fmt.Sprintf("worker-%d:%d", worker, round)}
	grant, err := by(ctx, worker, s.holder)
	if err != nil {
		time.Sleep(pause)
		return s, unless(err, token.ErrHeld)
	}
	s.from, s.to = time.Now(), grant.Until
	switch (worker + round) % 3 {
	case 0:
		time.Sleep(hurry / 8)
	case 1:
		err = p.stay(ctx, grant.Token, &s)
	case 2:
		time.Sleep(hurry + hurry/2)
	}
	if now := time.Now(); now.Before(s.to) {
		s.to = now
	}
	return s, errors.Join(err, unless(p.iss.Release(ctx, grant.Token), token.ErrLost))
}

func (p *probe) stay(ctx context.Context, tok token.Token, s *span) error {
	time.Sleep(hurry / 2)
	until, err := p.iss.Renew(ctx, tok, hurry)
	if err != nil {
		return unless(err, token.ErrLost)
	}
	s.to = until
	time.Sleep(hurry / 2)
	return nil
}

func (p *probe) disjoint(spans []span) {
	spans = slices.DeleteFunc(spans, func(s span) bool { return !s.from.Before(s.to) })
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	for i := 1; i < len(spans); i++ {
		if over := spans[i-1].to.Sub(spans[i].from); over > 0 {
			p.failf("%s and %s both held it for %s", spans[i-1].holder, spans[i].holder, over)
		}
	}
}

func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
