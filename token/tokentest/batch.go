package tokentest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

var batchRules = []rule{
	{"each renewal of a batch has an answer of its own", batchAnswersEach},
	{"leases renewed in a batch outlast their first ttl", batchProlongs},
	{"Until of a batch counts each ttl on the monotonic clock", batchUntil},
	{"nobody else is granted the resource before the Until of a batch", untilOfBatch},
	{"a batch of none is over soon", emptyBatch},
	{"a batch under a cancelled context has an error for each, none of which says that the lease is lost", cancelledBatch},
}

const many = 64 // renewals of a batch

func (p *probe) renewAll(ctx context.Context, batch []token.Renewal) {
	if p.err == nil {
		p.iss.(token.BatchRenewer).RenewAll(ctx, batch)
	}
}

func emptyBatch(p *probe) {
	done := make(chan struct{})
	go func() {
		p.iss.(token.BatchRenewer).RenewAll(p.ctx, nil)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		p.failf("RenewAll of none has not returned after %s", patience)
	}
}

// batch acquires a resource for each element of a batch.
func (p *probe) batch(ttl time.Duration) (at []*probe, batch []token.Renewal) {
	for i := range many {
		at = append(at, p.at(fmt.Sprintf("%s/%d", p.resource, i)))
		batch = append(batch, token.Renewal{Token: at[i].granted("a", ttl).Token, TTL: long})
	}
	return at, batch
}

// Every third lease was released, and every third of the rest is another's.
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
			p.failf("element %d, which is lost, has %v, want ErrLost", i, r.Err)
		case !lost[i] && (r.Err != nil || r.Until.IsZero()):
			p.failf("element %d, which is held, has %v and Until %s", i, r.Err, r.Until)
		case r.Token.Resource != at[i].resource:
			p.failf("element %d has become another's: %s", i, r.Token)
		}
	}
}

func batchProlongs(p *probe) {
	for ttl := 2 * short; p.err == nil && ttl < patience; ttl *= 3 {
		at := p.at(fmt.Sprintf("%s/%s", p.resource, ttl))
		one, two := at.at(at.resource+"/1"), at.at(at.resource+"/2")
		batch := []token.Renewal{
			{Token: one.granted("a", ttl).Token, TTL: long},
			{Token: two.granted("a", ttl).Token, TTL: long},
		}
		p.renewAll(p.ctx, batch)
		err := errors.Join(batch[0].Err, batch[1].Err)
		if err == nil {
			p.outlast(ttl)
			one.held("a")
			two.held("a")
			return
		}
		if !errors.Is(err, token.ErrLost) {
			p.failf("RenewAll: %w", err)
		}
	}
	p.failf("RenewAll right after Acquire has ErrLost")
}
