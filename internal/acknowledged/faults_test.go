package acknowledged_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/child"
)

const (
	pauseEvery  = 500 * time.Millisecond // on average
	longest     = 3 * ttl                // a pause
	forgetEvery = 50 * time.Millisecond  // a lock
	oneForgets  = 50                     // forgotten locks, all at once
)

// pause stops one process after the other, until ctx ends, for up to three times
// the ttl: at whatever they are doing.
func (r *run) pause(ctx context.Context) {
	if !child.CanStop {
		return
	}
	random := rand.New(rand.NewPCG(r.seed, 1000))
	for ctx.Err() == nil {
		wait(ctx, time.Duration(random.Int64N(int64(2*pauseEvery))))
		p := r.live[random.IntN(len(r.live))]
		length := time.Duration(random.Int64N(int64(longest)))
		if p.Stop() != nil {
			return // what is gone has said why
		}
		_ = p.Stands(context.WithoutCancel(ctx))
		wait(ctx, length)
		_ = p.Continue()
		r.pauses++
	}
}

// forget takes a lock away from whoever has it, until ctx ends, and now and then
// all of them with everything that the issuers knew.
func (r *run) forget(ctx context.Context) {
	random := rand.New(rand.NewPCG(r.seed, 2000))
	for ctx.Err() == nil {
		wait(ctx, time.Duration(random.Int64N(int64(2*forgetEvery))))
		cell := r.cells[random.IntN(len(r.cells))]
		lock := resource(cell.keys()[random.IntN(cell.rows)])
		if random.IntN(oneForgets) == 0 {
			lock = ""
		}
		var err error
		if cell.Issuer == "pgtoken" {
			_, err = r.pool.Exec(ctx, in(r.schema, "DELETE FROM {schema}.leases WHERE $1 IN ('', resource)"), lock)
		} else {
			err = r.forgetKeys(ctx, lock)
		}
		if ctx.Err() == nil {
			require.NoError(r, err)
			r.forgotten++
		}
	}
}

// forgetKeys removes those of a lock, or all.
func (r *run) forgetKeys(ctx context.Context, lock string) error {
	found := r.redis.Scan(ctx, 0, r.prefix+":*"+lock, 1000).Iterator()
	for found.Next(ctx) {
		if err := r.redis.Unlink(ctx, found.Val()).Err(); err != nil {
			return err
		}
	}
	return found.Err()
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
