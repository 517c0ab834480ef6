package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
)

// resource returns the resource of a worker.
func resource(worker int) string { return fmt.Sprintf("account/%d", account(worker)) }

// pair acquires and releases the worker's resource.
func pair(open library) opener {
	return func(ctx context.Context, c *client) op {
		l := open(ctx, c)
		return func(ctx context.Context, worker int) error {
			release, err := l.wait(ctx, resource(worker))
			if err != nil {
				return err
			}
			return release(ctx)
		}
	}
}

// hold holds the worker's resource with an empty function.
func hold(open issuer) opener {
	return func(ctx context.Context, c *client) op {
		locker := &lock.Locker{Issuer: open(ctx, c), Name: "bench", TTL: ttl, DangerouslyWithoutClaim: true}
		return func(ctx context.Context, worker int) error {
			return locker.Hold(ctx, resource(worker), func(context.Context) error { return nil })
		}
	}
}

func redisMeasurements() []measurement {
	return []measurement{
		contest{
			name: "Redis lock, ", server: redisServer, settings: every,
			baseline: subject{name: "SET NX PX, compare-and-delete", open: pair(rawLock)},
			others: []subject{
				{name: "Acquire, Release", open: pair(of(openRedistoken, issued)), targets: targets{
					overLink: {atMost(1.05), atMost(0.5)}, serverCPU: {atMost(1.15), atMost(0.85)},
				}},
				{name: "the same scripts, sent by go-redis", open: pair(openScripts)},
				{name: "Locker.Hold", open: hold(openRedistoken), targets: targets{overLink: {atMost(1.08)}}},
				{name: "redislock", open: pair(openRedislock)},
				{name: "redsync", open: pair(openRedsync)},
				{name: "rueidislock", open: pair(openRueidislock)},
			},
		},
		contest{
			name: "refused, ", server: redisServer, settings: alone,
			baseline: subject{name: "refused SET NX", open: refused(rawLock)},
			others: []subject{
				{name: "Acquire", open: refused(of(openRedistoken, issued)), targets: targets{overLink: {atMost(1.05)}}},
				{name: "Locker.Acquire with NoWait", open: refused(of(openRedistoken, leased))},
				{name: "redislock", open: refused(openRedislock)},
				{name: "redsync", open: refused(openRedsync)},
				{name: "rueidislock", open: refused(openRueidislock)},
			},
		},
		contest{
			name: "Redis write, ", server: redisServer, settings: every,
			baseline: subject{name: "SET", open: set},
			others:   []subject{{name: "redisguard Set", open: guardedSet}},
		},
	}
}

// refused tries to acquire a resource that another holder has all the time.
func refused(open library) opener {
	return func(ctx context.Context, c *client) op {
		takeHeld(ctx, c)
		l := open(ctx, c)
		return func(ctx context.Context, _ int) error {
			_, err := l.try(ctx, heldResource)
			return refusal(err, errHeld)
		}
	}
}

const heldResource = "account/1"

// takeHeld acquires the resource as another holder, for longer than the whole
// measurement.
func takeHeld(ctx context.Context, c *client) {
	const other, long = "another:4711:1:035be17d64c2f1a9", time.Hour
	client := c.redis()
	for _, prefix := range []string{"raw:", "redislock:", "redsync:", "rueidislock:0:"} {
		check(client.Set(ctx, prefix+heldResource, other, long).Err())
	}
	_, err := openRedistoken(ctx, c).Acquire(ctx, heldResource, other, long)
	if !errors.Is(err, token.ErrHeld) { // held since the first subject of the contest was opened
		check(err)
	}
}

// refusal turns every result except a refusal into an error.
func refusal(err, want error) error {
	switch {
	case err == nil:
		return errors.New("not refused")
	case errors.Is(err, want):
		return nil
	default:
		return fmt.Errorf("refused for another reason: %w", err)
	}
}

func set(_ context.Context, c *client) op {
	client := c.redis()
	return func(ctx context.Context, worker int) error {
		return client.Set(ctx, "plain:"+resource(worker), "100", 0).Err()
	}
}

func guardedSet(_ context.Context, c *client) op {
	guard := &redisguard.Guard{Client: c.redis()}
	return func(ctx context.Context, worker int) error {
		return guard.Set(token.NewContext(ctx, current(resource(worker))), resource(worker), "guarded:"+resource(worker), "100", 0)
	}
}

// lockDatabase is the database with the tables of the issuers.
const lockDatabase = "locks"

func pglockMeasurements() []measurement {
	return []measurement{contest{
		name: "PostgreSQL lock, ", server: postgresServer, settings: every,
		baseline: subject{name: "two durable updates", open: twoUpdates},
		others: []subject{
			{name: "pgtoken Acquire, Release", open: pair(of(openPgtoken, issued)), targets: targets{overLink: {atMost(0.95)}, packets: {atMost(2)}}},
			{name: "the same, claimed", open: claimed, targets: targets{overLink: {atMost(1)}, packets: {atMost(2)}}},
			{name: "Locker.Hold on pgtoken", open: hold(openPgtoken)},
		},
	}, figure(renewAll)}
}

// update changes the worker's row, and returns when the change is on the disk.
func update(ctx context.Context, pool *pgxpool.Pool, worker int) error {
	return execOne(ctx, pool, updateSQL, account(worker))
}

func oneUpdate(ctx context.Context, c *client) op {
	pool := c.postgres(ctx, lockDatabase, c.workers)
	return func(ctx context.Context, worker int) error { return update(ctx, pool, worker) }
}

func twoUpdates(ctx context.Context, c *client) op {
	one := oneUpdate(ctx, c)
	return func(ctx context.Context, worker int) error {
		if err := one(ctx, worker); err != nil {
			return err
		}
		return one(ctx, worker)
	}
}

// claimed uses an issuer that raises the mark in the statement that grants.
func claimed(ctx context.Context, c *client) op {
	iss := openClaiming(ctx, c)
	return func(ctx context.Context, worker int) error {
		grant, err := iss.Acquire(ctx, resource(worker), holder, ttl)
		if err != nil {
			return err
		}
		if grant.Claimed.DB == nil {
			return fmt.Errorf("%s is not claimed", grant.Token)
		}
		return iss.Release(ctx, grant.Token)
	}
}

// renewAll renews many leases ten times over one connection. PostgreSQL plans a prepared
// statement again for each of its first five executions.
func renewAll(ctx context.Context, e *env) []row {
	leases, rounds := e.size(10_000, 1000), 3
	var ratios []float64
	for n := range rounds {
		ratios = append(ratios, renewTenTimes(ctx, e, fmt.Sprintf("renewed/%d/", n), leases))
	}
	r := row{name: fmt.Sprintf("pgtoken.RenewAll of %d, the tenth call", leases), baseline: "the first call of the connection"}
	r.cells[overLoopback] = []value{middle(ratios, atMost(1.1))}
	return []row{r}
}

func renewTenTimes(ctx context.Context, e *env, prefix string, leases int) (ratio float64) {
	c := &client{env: e, workers: 1, sent: new(counter)}
	defer c.close()
	iss := openPgtoken(ctx, c)
	grantMany(ctx, c.postgres(ctx, lockDatabase, 1), prefix, leases)
	must(iss.Acquire(ctx, prefix, holder, ttl)) // opens the connection and sends its first statements
	batch := make([]token.Renewal, leases)
	for i := range batch {
		grant := token.Token{Resource: fmt.Sprint(prefix, i), Holder: holder, Number: manyNumber}
		batch[i] = token.Renewal{Token: grant, TTL: time.Hour}
	}
	var times [10]float64
	for call := range times {
		start := time.Now()
		iss.(token.BatchRenewer).RenewAll(ctx, batch)
		times[call] = time.Since(start).Seconds()
		for _, r := range batch {
			check(r.Err)
		}
	}
	return times[9] / times[0]
}

// manyNumber is the number of the leases of grantMany.
const manyNumber = 33

// grantMany writes the leases that as many acquisitions would write.
func grantMany(ctx context.Context, pool *pgxpool.Pool, prefix string, leases int) {
	must(pool.CopyFrom(ctx, pgx.Identifier{"fencepost", "leases"}, []string{"resource", "number", "holder", "expires_at"},
		pgx.CopyFromSlice(leases, func(i int) ([]any, error) {
			return []any{fmt.Sprint(prefix, i), int64(manyNumber), holder, time.Now().Add(time.Hour)}, nil
		})))
}
