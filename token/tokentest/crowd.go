package tokentest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	crowd  = 8 // concurrent callers
	rounds = 8 // grants to each caller
)

var crowdRules = []rule{
	{"numbers are unique and rise in the order of the grants, however many callers there are", numbersRiseInACrowd},
	{"a resource has one unexpired holder at a time", oneHolderAtATime},
}

// Each holder records its number while it holds. If there is one holder at a time, the
// records are in the order of the grants.
func numbersRiseInACrowd(p *probe) {
	var notes notes
	p.crowded(func(ctx context.Context, worker int) error {
		for round := range rounds {
			tok, err := p.insist(ctx, fmt.Sprintf("worker-%d:%d", worker, round))
			if err != nil {
				return err
			}
			notes.add(tok.Number)
			if err := p.iss.Release(ctx, tok); err != nil {
				return err
			}
		}
		return nil
	})
	notes.rise(p)
}

// notes are the numbers that holders recorded while they held.
type notes struct {
	mu      sync.Mutex
	numbers []int64
}

func (n *notes) add(number int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.numbers = append(n.numbers, number)
}

func (n *notes) last() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.numbers[len(n.numbers)-1]
}

func (n *notes) rise(p *probe) {
	for i := 1; i < len(n.numbers); i++ {
		p.above(n.numbers[i-1], n.numbers[i])
	}
}

func (p *probe) insist(ctx context.Context, holder string) (token.Token, error) {
	for {
		grant, err := p.iss.Acquire(ctx, p.resource, holder, long)
		if !errors.Is(err, token.ErrHeld) {
			return grant.Token, err
		}
		time.Sleep(pause)
	}
}

// crowded runs many workers at once and waits for them.
func (p *probe) crowded(work func(ctx context.Context, worker int) error) {
	ctx, cancel := context.WithTimeout(p.ctx, 5*timeout)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, crowd)
	for worker := range crowd {
		wg.Go(func() { errs[worker] = work(ctx, worker) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		p.failf("%w", err)
	}
}

const (
	hurry = 80 * time.Millisecond // a ttl that ends often
	rush  = time.Second           // how long the callers keep acquiring
)

// span is a time during which a holder could rely on its lease.
type span struct {
	holder   string
	from, to time.Time
}

// acquirer calls Acquire or Wait.
type acquirer func(ctx context.Context, worker int, holder string) (token.Grant, error)

func oneHolderAtATime(p *probe) {
	p.contend(func(ctx context.Context, _ int, holder string) (token.Grant, error) {
		return p.iss.Acquire(ctx, p.resource, holder, hurry)
	})
}

func (p *probe) contend(by acquirer) {
	var mu sync.Mutex
	var spans []span
	start := time.Now()
	p.crowded(func(ctx context.Context, worker int) error {
		for round := 0; time.Since(start) < rush; round++ {
			s, err := p.hold(ctx, by, worker, round)
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

// hold holds once: for a moment, until after a renewal, or for longer than the ttl. An
// issuer that takes longer than the ttl to reply counts as unreachable.
func (p *probe) hold(ctx context.Context, by acquirer, worker, round int) (span, error) {
	s := span{holder: fmt.Sprintf("worker-%d:%d", worker, round)}
	grant, err := by(ctx, worker, s.holder)
	if err != nil {
		time.Sleep(pause)
		return s, unless(unless(err, token.ErrHeld), token.ErrUnreachable)
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
	released := p.iss.Release(ctx, grant.Token)
	return s, errors.Join(err, unless(unless(released, token.ErrLost), token.ErrUnreachable))
}

// stay renews the lease of s once, unless it has ended: after another holder's lease, the
// renewal may find that the same holder was granted the resource again.
func (p *probe) stay(ctx context.Context, tok token.Token, s *span) error {
	time.Sleep(hurry / 2)
	if !time.Now().Before(s.to) {
		return nil
	}
	until, err := p.iss.Renew(ctx, tok, hurry)
	if err != nil {
		return unless(unless(err, token.ErrLost), token.ErrUnreachable)
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
			p.failf("%s and %s both held the resource for %s", spans[i-1].holder, spans[i].holder, over)
		}
	}
}

func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

const (
	warmUp = 2 * crowd  // grants until all waiters are in the queue
	turns  = 16 * crowd // grants that are counted
	jain   = 0.99
)

var fairnessRules = []rule{
	{"waiters in a crowd are served equally often, one at a time, under rising numbers", settled(servedEqually)},
	{"a resource has one unexpired holder at a time, handed over or not", oneHolderOfTheQueue},
}

// turn is one grant. Turns are recorded in the order of the grants.
type turn struct {
	worker int
	number int64
}

// ledger records the turns of concurrent waiters.
type ledger struct {
	inside atomic.Int32
	mu     sync.Mutex
	seen   []turn
}

// add records t, and reports whether enough turns were taken.
func (d *ledger) add(t turn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, t)
	return len(d.seen) >= warmUp+turns
}

// hazard L7
func servedEqually(p *probe) {
	var d ledger
	p.crowded(func(ctx context.Context, worker int) error {
		for round, over := 0, false; !over; round++ {
			grant, err := p.wait(ctx, fmt.Sprintf("worker-%d:%d", worker, round), long)
			if err != nil {
				return err
			}
			if d.inside.Add(1) > 1 {
				return fmt.Errorf("%s was granted while another holder had the resource", grant.Token)
			}
			over = d.add(turn{worker, grant.Token.Number})
			time.Sleep(p.settle / 16)
			d.inside.Add(-1)
			if err := p.iss.Release(ctx, grant.Token); err != nil {
				return err
			}
		}
		return nil
	})
	p.equal(d.seen)
}

func (p *probe) equal(seen []turn) {
	for i := 1; i < len(seen); i++ {
		p.above(seen[i-1].number, seen[i].number)
	}
	if p.err != nil {
		return
	}
	var counts [crowd]float64
	var sum, squares float64
	for _, t := range seen[warmUp : warmUp+turns] {
		counts[t.worker]++
	}
	for _, n := range counts {
		sum += n
		squares += n * n
	}
	if index := sum * sum / (crowd * squares); index < jain {
		p.suspectf("%d grants went to %d waiters as %v: Jain's index is %.3f, want %.2f", turns, crowd, counts, index, jain)
	}
}

// hazard R13
func oneHolderOfTheQueue(p *probe) {
	p.contend(func(ctx context.Context, worker int, holder string) (token.Grant, error) {
		if worker%4 == 0 {
			return p.iss.Acquire(ctx, p.resource, holder, hurry)
		}
		ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(worker)*hurry, token.ErrHeld)
		defer cancel()
		return p.wait(ctx, holder, hurry)
	})
}
