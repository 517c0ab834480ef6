package tokentest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/token"
)

// The order of the ttls is not that of the elements.
func batchUntil(p *probe) {
	at, batch := p.batch(long)
	ttl := func(i int) time.Duration { return time.Duration(1+(i*37)%many) * long }
	for i := range batch {
		batch[i].TTL = ttl(i)
	}
	sent := time.Now()
	p.renewAll(p.ctx, batch)
	for i, r := range batch {
		if r.Err != nil {
			p.failf("RenewAll: %w", r.Err)
		}
		at[i].within(sent, r.Until, ttl(i))
	}
}

func untilOfBatch(p *probe) {
	ttl := p.renewedInTime(2 * short)
	batch := []token.Renewal{{Token: p.granted("a", ttl).Token, TTL: ttl}}
	p.renewAll(p.ctx, batch)
	until := time.Now()
	if batch[0].Err == nil {
		until = batch[0].Until
	}
	p.awaited("b", long)
	p.notBefore(until)
}

var errTaken = errors.New("tokentest: the batch is in use for something else")

// What was asked for in vain is the caller's again once RenewAll has returned.
func cancelledBatch(p *probe) {
	at, batch := p.batch(long)
	p.cancelled("RenewAll", func(ctx context.Context) error {
		p.iss.(token.BatchRenewer).RenewAll(ctx, batch)
		return unlessAll(batch)
	})
	start := time.Now()
	p.renewAll(p.ctx, batch)
	took := max(time.Since(start), time.Microsecond)
	for range 8 {
		ctx, cancel := context.WithTimeout(p.ctx, rand.N(took))
		p.renewAll(ctx, batch)
		cancel()
		at[0].takeBack(batch)
	}
	at[0].held("a")
	at[many-1].renewed(batch[many-1].Token, long)
}

// unlessAll is the error of all, or nil where one has none.
func unlessAll(batch []token.Renewal) error {
	var all error
	for i, r := range batch {
		if r.Err == nil {
			return nil
		}
		all = errors.Join(all, fmt.Errorf("element %d: %w", i, r.Err))
	}
	return all
}

// takeBack looks whether the issuer, which is asked before and after, still
// writes.
func (p *probe) takeBack(batch []token.Renewal) {
	for i := range batch {
		if errors.Is(batch[i].Err, token.ErrLost) {
			p.failf("element %d of a batch whose context ended has %v", i, batch[i].Err)
		}
		batch[i].Err = errTaken
	}
	p.held("a")
	time.Sleep(pause)
	p.held("a")
	for i, r := range batch {
		if p.err == nil && r.Err != errTaken {
			p.failf("element %d was written to after RenewAll had returned: %v", i, r.Err)
		}
	}
}
