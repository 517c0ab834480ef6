package pglock

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/peer"
	"github.com/fencepost/fencepost/token"
)

// many is how many goroutines there are, where they are several.
const many = 16

// holder is as long as those of a Locker are.
const holder = "bench:4711:1:c2f1a9035be17d64"

// row is that of a worker, in no other's page.
func row(worker int) int64 { return 42 + 61*int64(worker) }

func resource(worker int) string { return fmt.Sprintf("account/%d", row(worker)) }

// update changes one row, and returns when that is on the disk.
func (g *Group) update(ctx context.Context, worker int) error {
	tag, err := g.pool.Exec(ctx, "UPDATE plain SET n = $1 WHERE id = $2", g.written.Add(1), row(worker))
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%s: not one row", tag)
	}
	return err
}

func (g *Group) updates(ctx context.Context, worker int) error {
	if err := g.update(ctx, worker); err != nil {
		return err
	}
	return g.update(ctx, worker)
}

// issued asks an issuer itself.
func issued(iss token.Issuer) measure.Op {
	return func(ctx context.Context, worker int) error {
		grant, err := iss.Acquire(ctx, resource(worker), holder, peer.TTL)
		if err != nil {
			return err
		}
		return iss.Release(ctx, grant.Token)
	}
}

// claimed has the mark raised in the statement that grants.
func claimed(iss token.Issuer) measure.Op {
	return func(ctx context.Context, worker int) error {
		grant, err := iss.Acquire(ctx, resource(worker), holder, peer.TTL)
		if err == nil && !grant.Claimed {
			err = fmt.Errorf("%s is not claimed", grant.Token)
		}
		if err != nil {
			return err
		}
		return iss.Release(ctx, grant.Token)
	}
}

// hold runs nothing under the lock, as programs run something.
func hold(iss token.Issuer) measure.Op {
	locker := &token.Locker{Issuer: iss, Name: "bench", TTL: peer.TTL}
	return func(ctx context.Context, worker int) error {
		return locker.Hold(ctx, resource(worker), func(context.Context) error { return nil })
	}
}
