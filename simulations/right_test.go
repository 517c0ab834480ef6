package simulations_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

// given is the one program of right whose lock its caller takes.
const given = "a worker under a token that was given to it"

// right are correct programs of different designs.
var right = map[string]program{
	"the README's": func(s *shop) func(context.Context) error { return s.guarded },
	"a repository that holds by itself, inside a service that holds": held((*shop).guarded),
	"the context of the outer Hold after an inner one": held(func(s *shop, ctx context.Context) error {
		err := s.hold(ctx, func(context.Context) error { return nil })
		return errors.Join(err, s.work(ctx))
	}),
	given: byItself(func(s *shop, ctx context.Context) error {
		tok, err := token.FromContext(ctx, "account/42")
		if err != nil {
			return err
		}
		if err := s.fence.Admit(ctx, tok); err != nil {
			return err
		}
		if err := s.hold(ctx, func(context.Context) error { return nil }); err != nil {
			return err
		}
		return s.work(ctx)
	}),
	"a read before Update, claimed":         held((*shop).readFirst),
	"a closure of SQL alone, without Claim": unclaimed((*shop).work),
	"Join, and an outbox in the same transaction": held(func(s *shop, ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if err := s.fence.Join(ctx, tx, "account/42"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO outbox VALUES ('withdrawn')")
			return errors.Join(err, s.withdraw(ctx, tx, tx))
		})
	}),
	"a savepoint that is rolled back after Join": held(func(s *shop, ctx context.Context) error {
		return s.update(ctx, func(tx pgx.Tx) error {
			savepoint, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			if err := errors.Join(s.set(ctx, savepoint, 7), savepoint.Rollback(ctx)); err != nil {
				return err
			}
			return s.withdraw(ctx, tx, tx)
		})
	}),
	"two resources, and two goroutines that read": byItself(func(s *shop, ctx context.Context) error {
		return s.locks.HoldAll(ctx, []string{"account/42", "account/7"}, func(ctx context.Context) error {
			group, reading := errgroup.WithContext(ctx)
			for range 2 {
				group.Go(func() error { _, err := s.balance(reading, s.pool); return err })
			}
			if err := group.Wait(); err != nil {
				return err
			}
			return s.fence.UpdateAll(ctx, []string{"account/7", "account/42"}, func(tx pgx.Tx) error { return s.withdraw(ctx, tx, tx) })
		})
	}),
	"a retry of what is retryable, and an unknown that is reported": again[*shop](guard.ErrRetryable),
	"an unknown that is resolved under a new token by reading a row": byItself(func(s *shop, ctx context.Context) error {
		unit := time.Now().Format(time.RFC3339Nano) + s.t.Name()
		return untilKnown(func() error {
			return s.locks.Hold(context.WithoutCancel(ctx), "account/42", func(ctx context.Context) error {
				return s.update(ctx, func(tx pgx.Tx) error {
					tag, err := tx.Exec(ctx, "INSERT INTO outbox SELECT $1::text WHERE NOT EXISTS (SELECT FROM outbox WHERE text = $1)", unit)
					if err != nil || tag.RowsAffected() == 0 {
						return err
					}
					return s.withdraw(ctx, tx, tx)
				})
			})
		})
	}),
	"a log that a trigger writes, and single statements by On": held(func(s *shop, ctx context.Context) error {
		guarded := s.fence.On("account/42")
		return s.withdraw(ctx, guarded, guarded)
	}),
	"four Holds, one in the other": func(s *shop) func(context.Context) error { return account{s}.withdrawTwiceHeld },
	"HoldAll, and On": byItself(func(s *shop, ctx context.Context) error {
		return s.locks.HoldAll(ctx, []string{"account/7", "account/42"}, func(ctx context.Context) error {
			return s.withdraw(ctx, s.pool, s.fence.On("account/42"))
		})
	}),
	"HoldAny": byItself(func(s *shop, ctx context.Context) error {
		return s.locks.HoldAny(ctx, []string{"account/42"}, func(ctx context.Context, slot string) error {
			return s.fence.Update(ctx, slot, func(tx pgx.Tx) error { return s.withdraw(ctx, tx, tx) })
		})
	}),
	"a lease that is acquired and released": leased(func(_ context.Context, lease *lock.Lease) context.Context {
		return lease.Context()
	}),
	"the token of a lease, put into the context by hand": leased(func(ctx context.Context, lease *lock.Lease) context.Context {
		return token.NewContext(ctx, lease.Token())
	}),
	"UPDATE RETURNING by On": held(func(s *shop, ctx context.Context) error {
		balance, err := s.balance(ctx, s.pool)
		if err != nil {
			return err
		}
		return s.fence.On("account/42").QueryRow(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42 RETURNING balance", balance-1).Scan(&balance)
	}),
	"SendBatch by On": held(func(s *shop, ctx context.Context) error {
		return s.spend(ctx, s.pool, func(left int) error {
			return s.fence.On("account/42").SendBatch(ctx, withdrawal(left)).Close()
		})
	}),
	"SendBatch in Update": inUpdate(func(s *shop, ctx context.Context, tx pgx.Tx) error {
		return s.spend(ctx, tx, func(left int) error { return tx.SendBatch(ctx, withdrawal(left)).Close() })
	}),
	"CopyFrom in Update": inUpdate(func(s *shop, ctx context.Context, tx pgx.Tx) error {
		rows := pgx.CopyFromRows([][]any{{"one"}, {"two"}})
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"outbox"}, []string{"text"}, rows); err != nil {
			return err
		}
		return s.withdraw(ctx, tx, tx)
	}),
	"SERIALIZABLE, run again": func(s *shop) func(context.Context) error {
		s.fence.Tx.IsoLevel = pgx.Serializable
		return func(ctx context.Context) error {
			return repeated(func() error { return s.guarded(ctx) }, guard.ErrRetryable)
		}
	},
	"reads over the pool before, in and after Update": held(func(s *shop, ctx context.Context) error {
		read := func() error { _, err := s.balance(ctx, s.pool); return err }
		err := s.update(ctx, func(tx pgx.Tx) error { return errors.Join(read(), s.withdraw(ctx, tx, tx)) })
		if err != nil {
			return err
		}
		_ = read() // for a page; may fail
		return nil
	}),
	"a long unit": inUpdate(func(s *shop, ctx context.Context, tx pgx.Tx) error {
		time.Sleep(10 * time.Millisecond)
		return s.withdraw(ctx, tx, tx)
	}),
	"an error of the business's own, now and then": inUpdate(func(s *shop, ctx context.Context, tx pgx.Tx) error {
		err := s.withdraw(ctx, tx, tx)
		if s.units.Add(1)%3 == 0 {
			return errors.Join(err, errPoor)
		}
		return err
	}),
	"a timeout of its own": byItself(func(s *shop, ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, testTimeout)
		defer cancel()
		return s.guarded(ctx)
	}),
	"an errgroup whose one goroutine writes": held(func(s *shop, ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { _, err := s.balance(ctx, s.pool); return err })
		group.Go(func() error {
			return s.work(ctx)
		})
		return group.Wait()
	}),
	"an unknown that is run again in a new Hold, with a key": func(s *shop) func(context.Context) error {
		_, err := s.pool.Exec(context.Background(), "CREATE UNIQUE INDEX ON outbox (text)")
		require.NoError(s.t, err)
		return func(ctx context.Context) error {
			key := rand.Text()
			return untilKnown(func() error {
				return s.hold(ctx, func(ctx context.Context) error {
					return s.update(ctx, func(tx pgx.Tx) error {
						tag, err := tx.Exec(ctx, "INSERT INTO outbox VALUES ($1) ON CONFLICT DO NOTHING", key)
						if err != nil || tag.RowsAffected() == 0 {
							return err
						}
						return s.withdraw(ctx, tx, tx)
					})
				})
			})
		}
	},
	"a stale unit that starts over under a new Hold": byItself(func(s *shop, ctx context.Context) error {
		return repeated(func() error { return s.guarded(ctx) }, guard.ErrStale, guard.ErrEvicted)
	}),
	"a refusal tried again three times, and returned": held(func(s *shop, ctx context.Context) (err error) {
		for range 3 {
			err = s.work(ctx)
			if err == nil || errors.Is(err, guard.ErrUnknown) {
				return err
			}
		}
		return err
	}),
	"a transaction of its own, and a guard over it": held(func(s *shop, ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			inner := sqlguard.Guard{DB: tx, Schema: s.schema}
			return inner.Update(ctx, "account/42", func(tx pgx.Tx) error { return s.withdraw(ctx, tx, tx) })
		})
	}),
	"a connection of its own": held(func(s *shop, ctx context.Context) error {
		return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			own := sqlguard.Guard{DB: conn, Schema: s.schema}
			return own.Update(ctx, "account/42", func(tx pgx.Tx) error { return s.withdraw(ctx, tx, tx) })
		})
	}),
	"Join after a read that was claimed": held((*shop).readThenJoin),
	"settings, a lock and a notification in the transaction": inUpdate(func(s *shop, ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{"SET LOCAL statement_timeout = '2min'", "SELECT FROM accounts FOR UPDATE", "SELECT pg_notify('withdrawn', '')"} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return s.withdraw(ctx, tx, tx)
	}),
	"a worker that is waited for": func(s *shop) func(context.Context) error {
		jobs := s.worker(func(j job) error {
			return s.work(j.ctx)
		})
		return held(func(_ *shop, ctx context.Context) error {
			done := make(chan error, 1)
			jobs <- job{ctx: ctx, done: done}
			return <-done
		})(s)
	},
	"a memory of the balance, which each write settles": func(s *shop) func(context.Context) error {
		var mu sync.Mutex
		known := map[int64]int{}
		return held(func(s *shop, ctx context.Context) error {
			return s.update(ctx, func(tx pgx.Tx) error {
				balance, err := s.balance(ctx, tx)
				mu.Lock()
				known[42] = balance
				mu.Unlock()
				return errors.Join(err, s.set(ctx, tx, balance-1))
			})
		})(s)
	},
	"rows with a mark of their own": func(s *shop) func(context.Context) error {
		s.exec("SELECT " + s.schema + ".add_mark_columns('accounts')")
		accounts := &rowguard.Table{Guard: s.fence, Name: pgx.Identifier{s.schema, "accounts"}, Prefix: "account/"}
		locks := &lock.Locker{Issuer: s.issuer, Claim: accounts.Claim}
		return func(ctx context.Context) error {
			return locks.Hold(ctx, "account/42", func(ctx context.Context) error {
				return s.spend(ctx, s.pool, func(left int) error {
					return accounts.Update(ctx, 42, rowguard.Set{"balance": left})
				})
			})
		}
	},
}

func runRight(t *testing.T, try scope) {
	for name, program := range testenv.Some(t, right, "the README's", given,
		"Join, and an outbox in the same transaction", "two resources, and two goroutines that read",
		"an unknown that is resolved under a new token by reading a row", "rows with a mark of their own") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, pgxpoint.Tracer{})
			subject := s.subject(program(s))
			subject.Holds = name != given
			covered, err := simulations.Cover(t.Context(), try(subject))
			require.NoError(t, err)
			require.Contains(t, covered, "tracers: pgx (writes over other connections were not observed)")
			for _, gap := range []string{"no tracer", "only HTTP", "outside a guard", "not Do's", "went around"} {
				require.NotContains(t, covered, gap)
			}
			require.Equal(t, !subject.Holds, strings.Contains(covered, "not covered: Do takes the lock itself, inside of the run's Hold"), covered)
		})
	}
}

// outsideHold are correct programs that write a row without a guard while they do not
// hold the lock.
var outsideHold = map[string]program{
	"a key of the request, before Hold": byItself(func(s *shop, ctx context.Context) error {
		if _, err := s.pool.Exec(ctx, "INSERT INTO outbox VALUES ($1) ON CONFLICT DO NOTHING", rand.Text()); err != nil {
			return err
		}
		return s.guarded(ctx)
	}),
	"a key of the request, and one unit in seven ends before Hold": func(s *shop) func(context.Context) error {
		var units atomic.Int64
		return func(ctx context.Context) error {
			if _, err := s.pool.Exec(ctx, "INSERT INTO outbox VALUES ($1)", rand.Text()); err != nil {
				return err
			}
			if units.Add(1)%7 == 0 {
				return errors.New("the request was cancelled")
			}
			return s.guarded(ctx)
		}
	},
	"the state of a job, before Hold and after it": func(s *shop) func(context.Context) error {
		state := func(ctx context.Context, is string) error {
			return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO outbox VALUES ($1)", is)
				return err
			})
		}
		return func(ctx context.Context) error {
			if err := state(ctx, "runs"); err != nil {
				return err
			}
			if err := s.guarded(ctx); err != nil {
				return err
			}
			_ = state(ctx, "done") // if its answer is lost, a sweeper finds the job
			return nil
		}
	},
}

// A row that is written outside of Hold breaks no rule about numbers: in production its
// writer has none then. The coverage names it.
func runOutsideHold(t *testing.T, try scope) {
	for name, program := range testenv.Some(t, outsideHold, "a key of the request, before Hold") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, pgxpoint.Tracer{})
			covered, err := simulations.Cover(t.Context(), try(s.subject(program(s))))
			require.NoError(t, err)
			require.Contains(t, covered, "not covered: a write was made outside a guard (INSERT INTO outbox")
			require.NotContains(t, covered, "Do takes the lock itself")
		})
	}
}

// Without a tracer less is observed, and no correct program gets a verdict.
func TestStressRightProgramsPassWithoutATracer(t *testing.T) {
	t.Parallel()
	for name, program := range right {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, nil)
			subject := s.subject(program(s))
			subject.Holds, subject.Unseen = name != given, "no tracer"
			require.NoError(t, simulations.Check(t, many(subject)))
		})
	}
}

// account is a service over a repository, each of which calls Hold.
type account struct{ *shop }

func (a account) withdrawTwiceHeld(ctx context.Context) error {
	return a.hold(ctx, func(ctx context.Context) error {
		return a.hold(ctx, func(ctx context.Context) error { return a.hold(ctx, a.guarded) })
	})
}

// untilKnown calls try until its outcome is known. A later try that fails otherwise does
// not settle an earlier one that was unknown.
func untilKnown(try func() error) error {
	var unknown error
	for {
		err := try()
		if err == nil {
			return nil
		}
		if !errors.Is(err, guard.ErrUnknown) {
			return errors.Join(err, unknown)
		}
		unknown = err
	}
}

// leased returns a program that writes once under a lease, with the context that under
// returns.
func leased(under func(ctx context.Context, lease *lock.Lease) context.Context) program {
	return byItself(func(s *shop, ctx context.Context) (err error) {
		lease, err := s.locks.Acquire(ctx, "account/42")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lease.Release(context.WithoutCancel(ctx))) }()
		return s.work(under(ctx, lease))
	})
}

// readThenJoin reads in its own transaction before the guard joins it.
func (s *shop) readThenJoin(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		return s.spend(ctx, tx, func(left int) error {
			if err := s.fence.Join(ctx, tx, "account/42"); err != nil {
				return err
			}
			return s.set(ctx, tx, left)
		})
	})
}

// inUpdate returns a program that does everything inside Update.
func inUpdate(work func(s *shop, ctx context.Context, tx pgx.Tx) error) program {
	return held(func(s *shop, ctx context.Context) error {
		return s.update(ctx, func(tx pgx.Tx) error { return work(s, ctx, tx) })
	})
}

var errPoor = errors.New("too poor")

func withdrawal(left int) *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue("UPDATE accounts SET balance = $1 WHERE id = 42", left)
	b.Queue("INSERT INTO outbox VALUES ('withdrawn')")
	return b
}

func (s *shop) exec(sql string) {
	_, err := s.pool.Exec(context.Background(), sql)
	require.NoError(s.t, err)
}

// A deliberate write over the pool is checked too, as docs/testing.md says.
func TestALogOverThePoolIsAnOrderVerdict(t *testing.T) {
	t.Parallel()
	s := openShop(t, pgxpoint.Tracer{})
	verdict := breaks(t, s.subject(held(func(s *shop, ctx context.Context) error {
		_, err := s.pool.Exec(ctx, "INSERT INTO outbox VALUES ('tried')")
		return errors.Join(err, s.work(ctx))
	})(s)), "order")
	require.ErrorContains(t, verdict, "(INSERT INTO outbox")
}
