package redisquorum

import (
	"context"
	"time"
)

// write is the second round.
func (b *ballot) write(ctx context.Context, number int64) error {
	var failed tally
	written, lost := 0, 0
	keys := []string{b.lock(b.resource), b.counter(b.resource)}
	ask := func(ctx context.Context, n *node) reply {
		return b.call(ctx, b.agreed, n, writeScript, keys, b.value, number)
	}
	err := b.poll(ctx, time.Until(b.until), ask, func(_ *node, r reply) bool {
		switch r = r.expect(0, "written", "lost"); {
		case r.err != nil:
			failed.fail(r.err)
		case r.word == "written":
			written++
		default:
			lost++
		}
		return written >= b.need || lost+len(failed.errs) > len(b.nodes)-b.need
	})
	switch {
	case err != nil:
		return err
	case written >= b.need:
		return nil
	case len(failed.errs) > len(b.nodes)-b.need:
		return failed.noMajority(b.quorum, written+lost)
	}
	return b.again(errLate)
}

// withdraw takes back what the first round locked, or may have, in the
// background: what it holds up is an attempt of somebody else.
func (b *ballot) withdraw(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, n := range b.nodes {
		if b.refused[n.index] {
			continue
		}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, b.ttl)
			defer cancel()
			// Not before the first round: it would be waiting for its own undoing.
			<-b.answered[n.index]
			withdrawScript.Run(ctx, n.client, []string{b.lock(b.resource)}, b.value)
		}()
	}
}
