package tokentest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/token"
)

var batchRules = []rule{
	{"each renewal of a batch has a result of its own", batchAnswersEach},
	{"leases renewed in a batch outlast their first ttl", batchProlongs},
	{"Until of a batch counts each ttl on the monotonic clock", batchUntil},
	{"no other holder is granted the resource before the Until of a batch", untilOfBatch},
	{"an empty batch returns soon", emptyBatch},
	{"a batch under a cancelled context has an error for each, none of which is ErrLost", cancelledBatch},
}

const many = 64 // renewals of a batch

func (p *probe) renewAll(ctx context.Context, batch []token.Renewal) {
	if p.err == nil {
		p.iss.(token.BatchRenewer).RenewAll(ctx, batch)
	}
}

func emptyBatch(p *probe) {
	_ = p.returns("RenewAll of an empty batch", func() error {
		p.iss.(token.BatchRenewer).RenewAll(p.ctx, nil)
		return nil
	})
}

// batch acquires one resource for each element of a batch.
func (p *probe) batch(ttl time.Duration) (at []*probe, batch []token.Renewal) {
	for i := range many {
		at = append(at, p.at(fmt.Sprintf("%s/%d", p.resource, i)))
		batch = append(batch, token.Renewal{Token: at[i].granted("a", ttl).Token, TTL: long})
	}
	return at, batch
}

// One third of the leases were released. Some of the others belong to another holder.
func batchAnswersEach(p *probe) {
	at, batch := p.batch(long)
	lost := make([]bool, many)
	for i := range batch {
		switch {
		case i%3 == 0:
			at[i].released(batch[i].Token)
			lost[i] = true
		case i%3 == 1 && i%2 == 0:
			batch[i].Token.Holder = "b"
			lost[i] = true
		}
	}
	p.renewAll(p.ctx, batch)
	for i, r := range batch {
		switch {
		case p.err != nil:
		case lost[i] && !errors.Is(r.Err, token.ErrLost):
			p.failf("element %d, whose lease is lost, has %v, want ErrLost", i, r.Err)
		case !lost[i] && (r.Err != nil || r.Until.IsZero()):
			p.failf("element %d, whose lease is held, has error %v and Until %s", i, r.Err, r.Until)
		case r.Token.Resource != at[i].resource:
			p.failf("element %d names another resource: %s", i, r.Token)
		}
	}
}

func batchProlongs(p *probe) {
	p.inTime(func(at *probe, ttl time.Duration) error {
		one, two := at.at(at.resource+"/1"), at.at(at.resource+"/2")
		batch := []token.Renewal{
			{Token: one.granted("a", ttl).Token, TTL: long},
			{Token: two.granted("a", ttl).Token, TTL: long},
		}
		at.renewAll(at.ctx, batch)
		err := errors.Join(batch[0].Err, batch[1].Err)
		if err == nil {
			at.outlast(ttl)
			one.held("a")
			two.held("a")
		}
		return err
	})
}

var batchLostRules = []rule{
	{"a batch never acquires what has expired, was released or was never held", batchOfNothing},
	{"a batch never takes from a successor", batchAfterSuccessor},
	{"holders are compared whole in a batch", batchComparesWhole},
}

// lostAll renews all of batch. Each element must get ErrLost.
func (p *probe) lostAll(batch ...token.Renewal) {
	for i := range batch {
		batch[i].TTL = longer
	}
	p.renewAll(p.ctx, batch)
	for _, r := range batch {
		if p.err == nil && !errors.Is(r.Err, token.ErrLost) {
			p.failf("RenewAll for %q by %q set %v, want ErrLost", r.Token.Resource, r.Token.Holder, r.Err)
		}
	}
}

// hazard L4
func batchOfNothing(p *probe) {
	expired, released, never := p.at(p.resource+"/1"), p.at(p.resource+"/2"), p.at(p.resource+"/3")
	batch := []token.Renewal{
		{Token: expired.granted("a", short).Token},
		{Token: released.granted("a", long).Token},
		{Token: token.Token{Resource: never.resource, Number: 1, Holder: "a"}},
	}
	p.outlast(short)
	released.released(batch[1].Token)
	p.lostAll(batch...)
	expired.freed()
	released.free()
	never.free()
}

// hazard L4
func batchAfterSuccessor(p *probe) {
	tok := p.granted("a", short).Token
	next := p.awaited("b", long).Token
	p.lostAll(token.Renewal{Token: tok})
	p.held("b")
	p.released(next)
	p.lostAll(token.Renewal{Token: tok}, token.Renewal{Token: next})
	p.free()
}

// hazard R7
func batchComparesWhole(p *probe) {
	var batch []token.Renewal
	var at []*probe
	for i, pair := range alike {
		at = append(at, p.at(fmt.Sprintf("%s/%d", p.resource, i)))
		tok := at[i].granted(pair[0], long).Token
		tok.Holder = pair[1]
		batch = append(batch, token.Renewal{Token: tok})
	}
	p.lostAll(batch...)
	for i, pair := range alike {
		at[i].held(pair[0])
	}
}

// The order of the ttls differs from the order of the elements.
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
	p.inTime(func(at *probe, ttl time.Duration) error {
		batch := []token.Renewal{{Token: at.granted("a", ttl).Token, TTL: ttl}}
		at.renewAll(at.ctx, batch)
		if batch[0].Err == nil {
			at.awaited("b", long)
			at.notBefore(batch[0].Until)
		}
		return batch[0].Err
	})
}

var errTaken = errors.New("tokentest: the batch is in use again")

// After RenewAll has returned, the caller may reuse the batch.
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

// unlessAll joins the errors of all elements. It returns nil if an element has none.
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

// takeBack checks that the issuer no longer writes to batch. It calls the issuer before
// and after a pause.
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
