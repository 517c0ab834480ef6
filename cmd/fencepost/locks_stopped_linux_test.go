package main

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

func init() { roles["holder"] = holder }

// stoppedSetup is what the process of a holder gets first.
type stoppedSetup struct {
	Server, Guard                         string // of the lock; through which it writes
	Postgres, Schema, Redis, Prefix, Name string
}

// lateWrites is what the holder reports when it was resumed.
type lateWrites struct {
	Holder         string // it has the lock, and writes from now on
	Accepted       int    // of the writes that began after it was resumed
	Refused, Other int
	Evicted        bool // a write before that was
}

const attempts = 3 // to write after it was resumed

// holder acquires the lock each time it is told to, and writes on and on. It never learns
// that it has lost the lock: the worst holder.
func holder(parent *subprocess.Parent) error {
	var s stoppedSetup
	if err := parent.Receive(&s); err != nil {
		return err
	}
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, s.Postgres)
	if err != nil {
		return err
	}
	defer pool.Close()
	options, err := redis.ParseURL(s.Redis)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	var iss token.Issuer = &pgtoken.Issuer{DB: pool, Schema: s.Schema}
	if s.Server == "redis" {
		iss = &redistoken.Issuer{Client: client, Prefix: s.Prefix}
	}
	claim, write := s.writer(pool, client)
	parent.Report(lateWrites{})
	return subprocess.Each(parent, func(string) error {
		grant, err := iss.Acquire(ctx, s.Name, rand.Text(), pgtest.Long)
		if err == nil {
			err = claim(ctx, grant.Token)
		}
		if err != nil {
			return err
		}
		parent.Report(lateWrites{Holder: grant.Token.Holder})
		var resumed atomic.Bool
		go func() {
			_ = parent.Receive(new(string))
			resumed.Store(true)
		}()
		var late lateWrites
		for n := 0; n < attempts; {
			isLate := resumed.Load()
			err := write(token.NewContext(ctx, grant.Token))
			switch {
			case !isLate:
				late.Evicted = late.Evicted || errors.Is(err, guard.ErrEvicted)
				continue
			case err == nil:
				late.Accepted++
			case errors.Is(err, guard.ErrStale):
				late.Refused++
			default:
				late.Other++
			}
			n++
		}
		parent.Report(late)
		return nil
	})
}

// writer returns how the holder claims and writes: each write adds one.
func (s stoppedSetup) writer(pool *pgxpool.Pool, client *redis.Client) (claim func(context.Context, token.Token) error, write func(context.Context) error) {
	marks, name := &sqlguard.Guard{DB: pool, Schema: s.Schema}, pgtest.In(s.Schema, "accounts")
	switch s.Guard {
	case "redis":
		g := &redisguard.Guard{Client: client}
		return g.Admit, func(ctx context.Context) error {
			_, err := g.Eval(ctx, s.Name, "return redis.call('INCR', KEYS[1])", []string{s.value()})
			return err
		}
	case "row":
		g := &rowguard.Table{Guard: marks, Name: pgx.Identifier{s.Schema, "accounts"}, Prefix: s.Prefix + "/"}
		return g.Admit, func(ctx context.Context) error {
			fence, err := g.Fence(ctx, 42)
			if err != nil {
				return err
			}
			c := fence.Clauses("a")
			tag, err := pool.Exec(ctx, "UPDATE "+name+" a SET balance = balance + 1, "+c.Set+" WHERE "+c.Where, c.Args...)
			if err == nil && tag.RowsAffected() == 0 {
				err = g.Explain(ctx, 42)
			}
			return err
		}
	}
	return marks.Admit, func(ctx context.Context) error {
		return marks.Update(ctx, s.Name, func(tx pgx.Tx) error {
			var balance int
			if err := tx.QueryRow(ctx, "SELECT balance FROM "+name+" WHERE id = 42").Scan(&balance); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE "+name+" SET balance = $1 WHERE id = 42", balance+1)
			return err
		})
	}
}

// value is the key to which the holder writes in Redis.
func (s stoppedSetup) value() string { return "{" + s.Name + "}" }

// Holders are stopped by SIGSTOP at any moment of their work, their locks are broken, and they
// are resumed. Of the writes that were accepted, none was accepted after the break had
// returned. In the unfenced twin all late writes are.
//
// hazard L26
func TestBreakOfStoppedHolders(t *testing.T) {
	t.Parallel()
	rounds := (testenv.Rounds(t, "FENCEPOST_BREAKS", 36) + 5) / 6
	for _, server := range []string{"redis", "postgres"} {
		for _, through := range []string{"marks", "row", "redis"} {
			t.Run(server+", "+through, func(t *testing.T) {
				t.Parallel()
				l := newLocked(t, server)
				s := stoppedSetup{server, through, testenv.PostgresURL(t), l.schema, testenv.RedisURL(t), l.table.Prefix[:len(l.table.Prefix)-1], l.resource}
				c, err := subprocess.Self("the holder", "holder")
				require.NoError(t, err)
				p, _, err := subprocess.Open[lateWrites](t.Context(), c, s)
				require.NoError(t, err)
				t.Cleanup(func() { p.End(context.WithoutCancel(t.Context())) })
				evicted := 0
				for range rounds {
					late, accepted := l.breakWhileStopped(p, s, false)
					require.Zero(t, accepted)
					require.Equal(t, attempts, late.Refused, late)
					if late.Evicted {
						evicted++
					}
				}
				late, accepted := l.breakWhileStopped(p, s, true)
				require.Equal(t, attempts, late.Accepted, late)
				require.GreaterOrEqual(t, accepted, attempts)
				t.Logf("lock on %s, written through %s: %d breaks, %d of them ended a transaction of the holder: 0 late writes were accepted; unfenced, %d of %d",
					server, through, rounds, evicted, late.Accepted, attempts)
			})
		}
	}
}

// breakWhileStopped stops the holder at a random moment, breaks its lock, and resumes it. It
// returns how many writes were accepted after the break had returned.
func (l *locked) breakWhileStopped(p *subprocess.Process[lateWrites], s stoppedSetup, unfenced bool) (late lateWrites, accepted int) {
	l.Helper()
	value := func() (n int) {
		if s.Guard == "redis" {
			n, _ = l.redis.Client.(*redis.Client).Get(l.Context(), s.value()).Int() // none if nothing was written yet
			return n
		}
		return pgtest.Query[int](l.T, l.pool, "SELECT balance FROM "+l.table.Name.Sanitize()+" WHERE id = 42")
	}
	began, err := p.Ask(l.Context(), "acquire")
	require.NoError(l, err)
	time.Sleep(time.Duration(mathrand.Int64N(int64(5 * time.Millisecond))))
	require.NoError(l, p.Stop())
	require.NoError(l, p.Stands(l.Context()))
	done := finished{}
	if unfenced {
		done = l.run("break", l.resource, "--holder", began.Holder, "--unfenced")
	} else {
		done = l.breaks(began.Holder)
	}
	require.Zero(l, done.status, done.err+done.out)
	before := value()
	require.NoError(l, p.Continue())
	late, err = p.Ask(l.Context(), "resumed")
	require.NoError(l, err)
	return late, value() - before
}
