package redisquorum

import (
	"context"
	"math"
	"time"
)

// ask is the first round at one node.
func (b *ballot) ask(ctx context.Context, n *node) reply {
	defer close(b.answered[n.index])
	keys := []string{b.lock(b.resource), b.counter(b.resource)}
	return b.call(ctx, b.agreed, n, acquireScript, keys, b.value[:19], b.holder, b.ttl.Milliseconds())
}

// count takes an answer to the first round in, and says whether they decide.
func (b *ballot) count(n *node, r reply) bool {
	if r.err == nil && r.word == "held" {
		b.refused[n.index] = true
		return b.meet(r.expect(2, "held"))
	}
	r = r.expect(2, "granted")
	var numbers []int64
	if r.err == nil {
		numbers, r.err = r.numbers(0)
	}
	if r.err != nil {
		b.failed.fail(r.err)
		return len(b.failed.errs) > len(b.nodes)-b.need
	}
	b.answers++
	b.votes++
	b.highest = max(b.highest, numbers[0])
	b.clocks = append(b.clocks, numbers[1])
	return b.votes >= b.need
}

func (b *ballot) meet(r reply) bool {
	if r.err != nil {
		b.failed.fail(r.err)
		return false
	}
	other := b.rivals[r.text(0)]
	if other == nil {
		other = &rival{}
		b.rivals[r.text(0)] = other
	}
	b.answers++
	other.votes++
	other.remaining = max(other.remaining, remaining(r.integer(1)))
	return other.votes >= b.need
}

// remaining translates PTTL, which is negative for a key without expiry.
func remaining(ms int64) time.Duration {
	if ms < 0 {
		return math.MaxInt64
	}
	return max(milliseconds(ms), time.Millisecond)
}
