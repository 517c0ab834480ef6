package simulations_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

const traced = "with a tracer"

var tracers = map[string]pgx.QueryTracer{traced: pgxpoint.Tracer{}, "without": nil}

// kept is the subject of a program with its own advisory lock, which a session holds
// while work runs.
func (s *shop) kept(work func(ctx context.Context, session *pgxpool.Conn) error) simulations.Subject {
	config := s.pool.Config().Copy()
	config.ConnConfig.Tracer = nil
	sessions, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(s.t, err)
	s.t.Cleanup(sessions.Close)
	subject := s.subject(func(ctx context.Context) error {
		return sessions.AcquireFunc(ctx, func(session *pgxpool.Conn) error {
			if _, err := session.Exec(ctx, "SELECT pg_advisory_lock(hashtext(current_schema()))"); err != nil {
				return err
			}
			defer session.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext(current_schema()))")
			return work(ctx, session)
		})
	})
	subject.Issuer, subject.Holds = nil, false
	subject.Expire = func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, `SELECT pg_terminate_backend(pid, 5000) FROM pg_locks
			WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND objid::bigint = hashtext(current_schema())::bigint & 4294967295`)
		return err
	}
	return subject
}

// over is the fence with another DB.
func (s *shop) over(db sqlguard.DB) *sqlguard.Guard {
	g := *s.fence
	g.DB = db
	return &g
}

// minted is the program without a mistake.
func (s *shop) minted(ctx context.Context, session *pgxpool.Conn) error {
	ctx, err := s.over(session).Mint(ctx, "account/42", rand.Text())
	if err != nil {
		return err
	}
	return s.work(ctx)
}

// For each mistake with an own lock, the verdict names it.
func TestWrongProgramsWithALockOfTheirOwnAreNamed(t *testing.T)       { nameOwnLocks(t) }
func TestStressWrongProgramsWithALockOfTheirOwnAreNamed(t *testing.T) { nameOwnLocks(t) }

func nameOwnLocks(t *testing.T) {
	t.Parallel()
	type mistake struct {
		says string
		work func(s *shop, ctx context.Context, session *pgxpool.Conn) error
	}
	for name, c := range testenv.Some(t, map[string]mistake{
		"not minted, no guard": {"no guard at all", func(s *shop, ctx context.Context, _ *pgxpool.Conn) error { // hazard G2
			return s.withdraw(ctx, s.pool, s.pool)
		}},
		"minted, no guard": {"no guard at all", func(s *shop, ctx context.Context, session *pgxpool.Conn) error { // hazard G2
			if _, err := s.over(session).Mint(ctx, "account/42", rand.Text()); err != nil {
				return err
			}
			return s.withdraw(ctx, s.pool, s.pool)
		}},
		"a token that is not put into the context": {"outer context", func(s *shop, ctx context.Context, session *pgxpool.Conn) error {
			if _, err := s.over(session).Mint(ctx, "account/42", rand.Text()); err != nil {
				return err
			}
			return s.work(ctx)
		}},
		"a read before Mint": {"read before Hold", func(s *shop, ctx context.Context, _ *pgxpool.Conn) error { // hazard G3
			return s.spend(ctx, s.pool, func(left int) error {
				ctx, err := s.fence.Mint(ctx, "account/42", rand.Text())
				if err != nil {
					return err
				}
				return s.update(ctx, func(tx pgx.Tx) error { return s.set(ctx, tx, left) })
			})
		}},
	}, "minted, no guard") {
		for tracing, tracer := range testenv.Some(t, tracers, traced) {
			t.Run(name+"/"+tracing, func(t *testing.T) {
				t.Parallel()
				s := openShop(t, tracer)
				err := checkPlanned(t, untilFound(s.kept(func(ctx context.Context, session *pgxpool.Conn) error { return c.work(s, ctx, session) })))
				t.Log(err)
				requireLikely(t, err, c.says)
			})
		}
	}
}

func TestExpireThatFailsEndsTheRun(t *testing.T) {
	t.Parallel()
	s := openShop(t, nil)
	subject := s.kept(s.minted)
	outOfOrder := errors.New("out of order")
	subject.Expire = func(context.Context) error { return outOfOrder }
	require.ErrorIs(t, simulations.Check(t, subject), outOfOrder)
}

// mint returns a function that numbers a lock under that name.
func (s *shop) mint(name string) func(ctx context.Context, lock string) (context.Context, error) {
	return func(ctx context.Context, lock string) (context.Context, error) { return s.fence.Mint(ctx, name, lock) }
}

// misnamed is one unit under another name.
func (s *shop) misnamed(ctx context.Context) error {
	return s.fence.Update(ctx, "accounts/42", func(tx pgx.Tx) error { return s.withdraw(ctx, tx, tx) })
}

// setNX is the subject of a program whose lock is a key in Redis.
func (s *shop) setNX(number func(ctx context.Context, lock string) (context.Context, error), work func(context.Context) error) simulations.Subject {
	client, prefix := testenv.Redis(s.t)
	key := prefix + "lock"
	subject := s.subject(func(ctx context.Context) error {
		mine := rand.Text()
		for !client.SetNX(ctx, key, mine, time.Minute).Val() {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		unlock := redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then redis.call("DEL", KEYS[1]) end return 0`)
		defer unlock.Run(context.WithoutCancel(ctx), client, []string{key}, mine)
		ctx, err := number(ctx, mine)
		if err != nil {
			return err
		}
		return work(ctx)
	})
	subject.Issuer, subject.Holds = nil, false
	subject.Expire = func(ctx context.Context) error { return client.Del(ctx, key).Err() }
	return subject
}

// skipLocked is the subject of a queue whose jobs are handed out again when they are due.
// A unit is a completed job.
func (s *shop) skipLocked(name string) simulations.Subject {
	s.exec("CREATE TABLE jobs (id int PRIMARY KEY, state text NOT NULL DEFAULT '', due timestamptz NOT NULL DEFAULT now(), runs int NOT NULL DEFAULT 0); INSERT INTO jobs VALUES (42)")
	const next = `UPDATE jobs SET due = now() + interval '1 minute' WHERE id = (
		SELECT id FROM jobs WHERE due <= now() ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, runs`
	take := func(ctx context.Context) (runs int, tok token.Token, err error) {
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var id int
			if err := tx.QueryRow(ctx, next).Scan(&id, &runs); err != nil {
				return err
			}
			tok, err = mintedToken(s.fence.MintTx(ctx, tx, fmt.Sprintf(name, id), rand.Text()))
			return err
		})
		return runs, tok, err
	}
	subject := simulations.Subject{
		Resource: "job/42",
		Expire: func(ctx context.Context) error {
			_, err := s.pool.Exec(ctx, "UPDATE jobs SET due = now() - interval '1 minute' WHERE id = 42")
			return err
		},
		Count: func(ctx context.Context) (n int, err error) {
			return n, s.pool.QueryRow(ctx, "SELECT runs FROM jobs WHERE id = 42").Scan(&n)
		},
	}
	subject.Do = func(ctx context.Context) error {
		runs, tok, err := take(ctx)
		for errors.Is(err, pgx.ErrNoRows) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			runs, tok, err = take(ctx)
		}
		if err != nil {
			return err
		}
		_, err = s.fence.On(tok.Resource).Exec(token.NewContext(ctx, tok), "UPDATE jobs SET runs = $1, due = now() WHERE id = 42", runs+1)
		return err
	}
	return subject
}

// A program's own lock is tested without a change.
func runOnALockOfItsOwn(t *testing.T, try scope) {
	for name, subject := range testenv.Some(t, map[string]func(s *shop) simulations.Subject{
		"an advisory lock": func(s *shop) simulations.Subject { return s.kept(s.minted) },
		"SET NX PX":        func(s *shop) simulations.Subject { return s.setNX(s.mint("account/42"), s.readFirst) },
		"SKIP LOCKED":      func(s *shop) simulations.Subject { return s.skipLocked("job/%d") },
	}, "SET NX PX") {
		for tracing, tracer := range testenv.Some(t, tracers, traced) {
			t.Run(name+"/"+tracing, func(t *testing.T) {
				t.Parallel()
				subject := subject(openShop(t, tracer))
				if tracer == nil {
					subject.Unseen = "no tracer"
				}
				simulations.Run(t, try(subject))
			})
		}
	}
}

// Mistakes with a lock that is a key in Redis.
func TestStressOtherSpellingsWithAKeptLockAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says    string
		subject func(s *shop) simulations.Subject
	}{
		"numbered by INCR, and read before Update": {"read before Update without Claim|read before Hold", func(s *shop) simulations.Subject {
			client, prefix := testenv.Redis(s.t)
			return s.setNX(func(ctx context.Context, lock string) (context.Context, error) {
				return token.NewContext(ctx, token.Token{Resource: "account/42", Number: client.Incr(ctx, prefix+"fence").Val(), Holder: lock}), nil
			}, s.readFirst)
		}},
		"minted once, at the start": {"token cached in a struct", func(s *shop) simulations.Subject {
			tok, err := mintedToken(s.fence.Mint(context.Background(), "account/42", "start"))
			require.NoError(s.t, err)
			return s.setNX(func(ctx context.Context, _ string) (context.Context, error) { return token.NewContext(ctx, tok), nil }, s.readFirst)
		}},
		"minted under a misspelt name":          {"wrong name", func(s *shop) simulations.Subject { return s.setNX(s.mint("accounts/42"), s.readFirst) }},
		"minted and updated under another name": {"wrong name", func(s *shop) simulations.Subject { return s.setNX(s.mint("accounts/42"), s.misnamed) }},
		"updated under another name":            {"wrong name", func(s *shop) simulations.Subject { return s.setNX(s.mint("account/42"), s.misnamed) }},
		"minted by the first, and kept": {"token cached in a struct", func(s *shop) simulations.Subject {
			var once sync.Once
			var tok token.Token
			return s.setNX(func(ctx context.Context, lock string) (_ context.Context, err error) {
				once.Do(func() { tok, err = mintedToken(s.fence.Mint(ctx, "account/42", lock)) })
				return token.NewContext(ctx, tok), err
			}, s.readFirst)
		}},
		"a refusal swallowed": {"a refusal swallowed", func(s *shop) simulations.Subject {
			return s.setNX(s.mint("account/42"), func(ctx context.Context) error {
				_ = s.readFirst(ctx)
				return nil
			})
		}},
	} {
		for tracing, tracer := range tracers {
			t.Run(name+"/"+tracing, func(t *testing.T) {
				t.Parallel()
				s := openShop(t, tracer)
				began := time.Now()
				err := checkPlanned(t, untilFound(c.subject(s)))
				t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
				requireLikely(t, err, c.says)
			})
		}
	}
}

// readFirst returns work under a token that was claimed or minted.
func (s *shop) readFirst(ctx context.Context) error {
	return s.spend(ctx, s.pool, func(left int) error {
		return s.update(ctx, func(tx pgx.Tx) error { return s.set(ctx, tx, left) })
	})
}

// mintedToken returns the token of a Mint's context.
func mintedToken(ctx context.Context, err error) (token.Token, error) {
	return tokenctx.Entries[token.Token](ctx).Token, err
}
