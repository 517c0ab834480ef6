package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// unitKey gives each operation a unit of its own.
var unitKey atomic.Int64

func newUnit() guard.Unit {
	return guard.Unit{Key: fmt.Sprintf("payment/%d", unitKey.Add(1)), Fingerprint: "100 EUR"}
}

const unitResult = `{"status":201,"id":"c2f1a9035be17d64"}`

// onceCost is the target for Once, against a guarded write and an INSERT by hand.
var onceCost = targets{overLink: {atMost(1.15)}, serverCPU: {atMost(1.15)}}

func onceMeasurements() []measurement {
	return []measurement{
		contest{
			name: "PostgreSQL unit, ", server: postgresServer, settings: every,
			baseline: subject{name: "Update, and an INSERT by hand", open: guarded(unitByHand)},
			others: []subject{
				{name: "Once", open: guarded(once(nil)), targets: onceCost},
				{name: "Once with a result", open: guarded(once([]byte(unitResult))), targets: onceCost},
			},
		},
		contest{
			name: "Redis unit, ", server: redisServer, settings: every,
			baseline: subject{name: "Eval, and SET NX by hand", open: evalUnitByHand},
			others:   []subject{{name: "Once", open: evalOnce, targets: onceCost}},
		},
	}
}

// insertUnitSQL records a unit and its result in a table of the program's own.
const insertUnitSQL = "INSERT INTO units VALUES ($1, $2, $3, $4, now() + interval '30 days')"

// unitByHand cannot be repeated after the token became stale, and finds no first result.
func unitByHand(ctx context.Context, g *sqlguard.Guard, worker int) error {
	ctx = token.NewContext(ctx, current(branch))
	return g.Update(ctx, branch, func(tx pgx.Tx) error {
		u := newUnit()
		sum := sha256.Sum256([]byte(u.Fingerprint))
		if _, err := tx.Exec(ctx, insertUnitSQL, branch, u.Key, sum[:], unitResult); err != nil {
			return err
		}
		return closure(ctx, worker)(tx)
	})
}

func once(result []byte) func(ctx context.Context, g *sqlguard.Guard, worker int) error {
	return func(ctx context.Context, g *sqlguard.Guard, worker int) error {
		ctx = token.NewContext(ctx, current(branch))
		_, err := g.Once(ctx, branch, newUnit(), func(tx pgx.Tx) ([]byte, error) {
			return result, closure(ctx, worker)(tx)
		})
		return err
	}
}

const (
	payScript       = "redis.call('SET', KEYS[1], ARGV[1]) return ARGV[2]"
	payOnceByScript = `if not redis.call('SET', KEYS[2], ARGV[3] .. ARGV[2], 'NX', 'PX', ARGV[4]) then return false end
		redis.call('SET', KEYS[1], ARGV[1]) return ARGV[2]`
)

func evalUnitByHand(_ context.Context, c *client) op {
	g := &redisguard.Guard{Client: c.redis()}
	return func(ctx context.Context, worker int) error {
		name, u := resource(worker), newUnit()
		sum := sha256.Sum256([]byte(u.Fingerprint))
		_, err := g.Eval(token.NewContext(ctx, current(name)), name, payOnceByScript,
			[]string{"paid:" + name, "unit:" + u.Key}, "100", unitResult, sum[:], shortRetention.Milliseconds())
		return err
	}
}

func evalOnce(_ context.Context, c *client) op {
	g := &redisguard.Guard{Client: c.redis(), Retention: shortRetention}
	return func(ctx context.Context, worker int) error {
		name := resource(worker)
		_, err := g.Once(token.NewContext(ctx, current(name)), name, newUnit(), payScript, []string{"paid:" + name}, "100", unitResult)
		return err
	}
}

// shortRetention bounds the server's memory.
const shortRetention = time.Minute
