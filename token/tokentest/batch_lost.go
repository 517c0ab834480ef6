package tokentest

import (
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

var batchLostRules = []rule{
	{"a batch never acquires what has expired, was released or was never held", batchOfNothing},
	{"a batch never takes from a successor", batchAfterSuccessor},
	{"holders are compared whole in a batch", batchComparesWhole},
}

// lostAll renews all of batch, each of which must be ErrLost.
func (p *probe) lostAll(batch ...token.Renewal) {
	for i := range batch {
		batch[i].TTL = longer
	}
	p.renewAll(p.ctx, batch)
	for _, r := range batch {
		if p.err == nil && !errors.Is(r.Err, token.ErrLost) {
			p.failf("RenewAll for %q by %q has %v, want ErrLost", r.Token.Resource, r.Token.Holder, r.Err)
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
	expired.free()
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
