package fairness_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// order is the setup of a process of waiters.
type order struct {
	Issuer  string // a key of issuers
	URL     string
	Space   string // its prefix or schema
	Process string
	Waiters int
	TTL     time.Duration
	Work    time.Duration // of each turn
	Polls   bool          // in place of Wait
}

// turn is one turn of a waiter, by the machine's clock. It is sent at its beginning, with
// Done zero, and at its end. A process sends an empty turn when it is ready.
type turn struct {
	Waiter string
	Asked  int64 // in ns
	Got    int64 // zero if it was not granted
	Done   int64
	Number int64
	// Lost is true if the lease had expired before Done.
	Lost    bool
	Failure string // of a Hold
	// Late is how late a timer of the process was since it was ready, at most.
	Late time.Duration
}

// crew is the waiters of one process.
type crew struct {
	order
	*subprocess.Parent
	issuer token.Issuer
	late   atomic.Int64 // see turn.Late, in ns; the whole lease if a release was too late
}

// takeTurns runs a process of waiters, which take turns until the parent closes the
// input.
func takeTurns(parent *subprocess.Parent) error {
	c := &crew{Parent: parent}
	if err := c.Receive(&c.order); err != nil {
		return err
	}
	iss, leave, err := issuers[c.Issuer](context.Background(), c.order)
	if err != nil {
		return err
	}
	defer leave()
	if c.issuer = iss; c.Polls {
		c.issuer = polled{iss}
	}
	c.Report(turn{}) // ready
	ctx, stop := c.UntilClosed(context.Background())
	defer stop()
	var working sync.WaitGroup
	working.Go(func() { c.watch(ctx) })
	for n := range c.Waiters {
		working.Go(func() { c.wait(ctx, fmt.Sprintf("%s/%d", c.Process, n)) })
	}
	working.Wait()
	return nil
}

// watch measures how late timers are.
func (c *crew) watch(ctx context.Context) {
	for ctx.Err() == nil {
		due := time.Now().Add(c.Work / 2)
		time.Sleep(c.Work / 2)
		c.raise(time.Since(due))
	}
}

// raise sets late to d if d is greater.
func (c *crew) raise(d time.Duration) {
	for old := c.late.Load(); old < int64(d) && !c.late.CompareAndSwap(old, int64(d)); old = c.late.Load() {
	}
}

// polled hides the issuer's optional methods.
type polled struct{ token.Issuer }

// wait takes one waiter's turns.
func (c *crew) wait(ctx context.Context, name string) {
	locker := lock.Locker{Issuer: c.issuer, Name: name, TTL: c.TTL, DangerouslyWithoutClaim: true}
	for ctx.Err() == nil {
		t := turn{Waiter: name, Asked: now()}
		err := locker.Hold(ctx, resource, func(ctx context.Context) error {
			t.Got = now()
			tok, err := token.FromContext(ctx, resource)
			t.Number = tok.Number
			c.Report(t)
			time.Sleep(c.Work)
			t.Done = now()
			if time.Duration(t.Done-t.Got) > c.TTL/4 { // the machine stood still, and an expired lease may not have been noticed yet
				wait(ctx, c.TTL)
			}
			t.Lost = errors.Is(context.Cause(ctx), token.ErrLost)
			return err
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, token.ErrLost) {
			if errors.Is(err, context.DeadlineExceeded) { // a release is bounded by its lease
				c.raise(c.TTL)
			} else {
				t.Failure = err.Error()
			}
		}
		t.Late = time.Duration(c.late.Load())
		c.Report(t)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func now() int64 { return time.Now().UnixNano() }

// issuers make the issuer in a process of waiters. leave ends what the issuer has begun.
var issuers = map[string]func(context.Context, order) (iss token.Issuer, leave func(), err error){
	"redistoken": func(_ context.Context, o order) (token.Issuer, func(), error) {
		options, err := redis.ParseURL(o.URL)
		if err != nil {
			return nil, nil, err
		}
		client := redis.NewClient(options)
		iss := &redistoken.Issuer{Client: client, Prefix: o.Space}
		return iss, func() { iss.Close(); client.Close() }, nil
	},
	"pgtoken": func(ctx context.Context, o order) (token.Issuer, func(), error) {
		pool, err := postgresPool(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		iss := &pgtoken.Issuer{DB: pool, Schema: o.Space}
		return iss, func() { iss.Close(); pool.Close() }, nil
	},
}

// postgresPool opens its connections before the first turn, since opening one takes longer
// than a turn.
func postgresPool(ctx context.Context, o order) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(o.Waiters) + 2
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	for range config.MaxConns {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Release()
	}
	return pool, nil
}

// newOrder returns an order for waiters at a lock of the test's own.
func newOrder(t *testing.T, issuer string) order {
	t.Helper()
	if issuer == "redistoken" {
		_, prefix := testenv.Redis(t)
		return order{Issuer: issuer, URL: testenv.RedisURL(t), Space: prefix}
	}
	_, schema := testenv.Postgres(t)
	return order{Issuer: issuer, URL: testenv.PostgresURL(t), Space: schema}
}
