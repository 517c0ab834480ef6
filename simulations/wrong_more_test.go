package simulations_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// program makes a Do of a shop.
type program = func(s *shop) func(context.Context) error

// repository writes with what it was created with.
type repository struct {
	*shop
	db  querier
	ctx context.Context
}

func (r *repository) withdraw() error { return r.shop.withdraw(r.ctx, r.db, r.db) }

// job is a message to a worker.
type job struct {
	ctx  context.Context
	tok  token.Token
	done chan error
}

// worker performs jobs, one after the other, until the test ends.
func (s *shop) worker(work func(job) error) chan job {
	jobs := make(chan job, 1000)
	var group sync.WaitGroup
	group.Go(func() {
		for j := range jobs {
			err := work(j)
			if j.done != nil {
				j.done <- err
			}
		}
	})
	s.t.Cleanup(func() { close(jobs); group.Wait() })
	return jobs
}

// keptLease is the name of a mistake that only random interleavings find: all writers have
// one token, and lose an update if two of their transactions overlap. The plan has no two
// writers inside a transaction.
const keptLease = "a lease that is kept between units"

// others are other forms of the mistakes. Each verdict contains one of says.
var others = []struct {
	name   string
	says   string // alternatives, separated by bars
	unseen bool   // only a tracer observes it
	make   program
}{
	{"a goroutine that writes by tx when Update has returned", "work that outlives Hold", false, held(func(s *shop, ctx context.Context) error {
		returned := make(chan struct{})
		defer close(returned)
		return s.update(ctx, func(tx pgx.Tx) error {
			go func() {
				<-returned
				_ = s.withdraw(context.WithoutCancel(ctx), tx, tx)
			}()
			return nil
		})
	})},
	{"a repository that stored the pool", "write over the pool", false, func(s *shop) func(context.Context) error {
		return held(func(s *shop, ctx context.Context) error {
			return s.update(ctx, func(pgx.Tx) error { return (&repository{s, s.pool, ctx}).withdraw() })
		})(s)
	}},
	{"a repository that stored the context of an earlier Hold", "token cached in a struct|outer context|work that outlives Hold", false, func(s *shop) func(context.Context) error {
		var once sync.Once
		r := &repository{shop: s}
		return held(func(s *shop, ctx context.Context) error {
			once.Do(func() { r.ctx = context.WithoutCancel(ctx) })
			return s.work(r.ctx)
		})(s)
	}},
	{"a repository that stored the context of an earlier Hold, which has ended", "token cached in a struct|outer context|work that outlives Hold", false, func(s *shop) func(context.Context) error {
		var once sync.Once
		r := &repository{shop: s}
		return held(func(s *shop, ctx context.Context) error {
			once.Do(func() { r.ctx = ctx })
			return s.work(r.ctx)
		})(s)
	}},
	{"a queue whose worker writes later", "work that outlives Hold", false, func(s *shop) func(context.Context) error {
		jobs := s.worker(func(j job) error {
			return s.work(j.ctx)
		})
		return held(func(_ *shop, ctx context.Context) error {
			jobs <- job{ctx: context.WithoutCancel(ctx)}
			return nil
		})(s)
	}},
	{"a token in a message to a consumer", "work that outlives Hold|no guard at all", false, func(s *shop) func(context.Context) error {
		jobs := s.worker(func(j job) error {
			ctx := token.NewContext(context.Background(), j.tok)
			return s.work(ctx)
		})
		return held(func(_ *shop, ctx context.Context) error {
			tok, err := token.FromContext(ctx, "account/42")
			jobs <- job{tok: tok}
			return err
		})(s)
	}},
	{"context.Background in Update", "outer context", false, held(func(s *shop, ctx context.Context) error {
		return s.update(context.Background(), func(tx pgx.Tx) error { return s.withdraw(ctx, tx, tx) })
	})},
	{"a refusal retried for ever", "a refusal retried", false, again[*shop](guard.ErrStale)},
	{"a refusal logged, and nil", "a refusal swallowed", false, held(func(s *shop, ctx context.Context) error {
		if err := s.work(ctx); err != nil {
			s.t.Logf("withdraw: %v", err)
		}
		return nil
	})},
	{"an unknown retried in a new Hold, without reading", "retry after unknown", false, byItself(func(s *shop, ctx context.Context) error {
		return repeated(func() error { return s.guarded(ctx) }, guard.ErrUnknown)
	})},
	{"an unknown taken for a success", "unknown taken for an answer", false, ignoring[*shop](guard.ErrUnknown)},
	{"an unknown taken for a success, and compensated", "unknown taken for an answer", false, held(func(s *shop, ctx context.Context) error {
		err := s.work(ctx)
		if errors.Is(err, guard.ErrUnknown) {
			err = errors.Join(err, s.update(ctx, func(tx pgx.Tx) error {
				balance, err := s.balance(ctx, tx)
				return errors.Join(err, s.set(ctx, tx, balance+1))
			}))
		}
		return err
	})},
	{"every error retried once", "retry after unknown", false, held(func(s *shop, ctx context.Context) error {
		if s.work(ctx) == nil {
			return nil
		}
		return s.work(ctx)
	})},
	{"an eviction swallowed", "a refusal swallowed", false, ignoring[*shop](guard.ErrEvicted)},
	{"Join after the read, unclaimed", "read before Update without Claim", false, unclaimed((*shop).readThenJoin)},
	{"On for the read, the pool for the write", "only the first of two statements guarded|check, then write", false, held(func(s *shop, ctx context.Context) error {
		return s.withdraw(ctx, s.fence.On("account/42"), s.pool)
	})},
	{"another transaction inside Update", "write over the pool", false, held(func(s *shop, ctx context.Context) error {
		return s.update(ctx, func(tx pgx.Tx) error {
			return s.spend(ctx, tx, func(left int) error {
				return pgx.BeginFunc(ctx, s.pool, func(other pgx.Tx) error { return s.set(ctx, other, left) })
			})
		})
	})},
	{"two Updates for one unit", "one unit in two transactions", false, held(func(s *shop, ctx context.Context) error {
		err := s.work(ctx)
		if err != nil {
			return err
		}
		return s.update(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO outbox VALUES ('withdrawn')")
			return err
		})
	})},
	{"a comparison reversed", "equality instead of order|no guard at all", false, conditional("mark >= $2", "mark = $2")},
	{"a mark that is compared and never raised", "no guard at all", false, conditional("mark <= $2", "mark = mark")},
	{"a mark that is raised and never compared", "no guard at all", false, conditional("true", "mark = $2")},
	{"a mark that is compared in Go", "check, then write|no guard at all", false, held(func(s *shop, ctx context.Context) error {
		tok, err := token.FromContext(ctx, "account/42")
		if err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var balance int
			var mark int64
			if err := tx.QueryRow(ctx, "SELECT balance, mark FROM accounts WHERE id = 42").Scan(&balance, &mark); err != nil {
				return err
			}
			if mark > tok.Number {
				return guard.ErrStale
			}
			_, err := tx.Exec(ctx, "UPDATE accounts SET balance = $1, mark = $2 WHERE id = 42", balance-1, tok.Number)
			return err
		})
	})},
	{keptLease, "token cached in a struct", false, func(s *shop) func(context.Context) error {
		var mu sync.Mutex
		var lease *lock.Lease
		return func(ctx context.Context) error {
			mu.Lock()
			if lease == nil {
				var err error
				if lease, err = s.locks.Acquire(context.WithoutCancel(ctx), "account/42"); err != nil {
					mu.Unlock()
					return err
				}
				s.t.Cleanup(func() { _ = lease.Release(context.Background()) })
			}
			mu.Unlock()
			ctx = token.NewContext(ctx, lease.Token())
			return s.work(ctx)
		}
	}},
	{"a cache that is filled before Hold", "read before Hold", false, byItself(func(s *shop, ctx context.Context) error {
		return s.spend(ctx, s.pool, func(left int) error {
			return s.hold(ctx, func(ctx context.Context) error {
				return s.update(ctx, func(tx pgx.Tx) error { return s.set(ctx, tx, left) })
			})
		})
	})},
	{"a stale unit written again under a new Hold, from the old read", "a stale value written again", false, byItself(func(s *shop, ctx context.Context) error {
		balance := 0
		for {
			err := s.hold(ctx, func(ctx context.Context) (err error) {
				if balance == 0 {
					if balance, err = s.balance(ctx, s.pool); err != nil {
						return err
					}
				}
				return s.update(ctx, func(tx pgx.Tx) error { return s.set(ctx, tx, balance-1) })
			})
			if !errors.Is(err, guard.ErrStale) {
				return err
			}
		}
	})},
	{"a stale unit written again under a number that was minted inside Hold", "a stale value written again", false, held(func(s *shop, ctx context.Context) error {
		write, err := s.stale(ctx)
		if err != nil {
			return err
		}
		if err := write(ctx); !errors.Is(err, guard.ErrStale) {
			return err
		}
		if ctx, err = s.fence.Mint(ctx, "account/42", rand.Text()); err != nil {
			return err
		}
		return write(ctx)
	})},
	{"a write that is deferred after Update", "only the first of two statements guarded|check, then write", false, held(func(s *shop, ctx context.Context) (err error) {
		var balance int
		defer func() {
			if err == nil {
				err = s.set(ctx, s.pool, balance-1)
			}
		}()
		return s.update(ctx, func(tx pgx.Tx) error { balance, err = s.balance(ctx, tx); return err })
	})},
	{"the context looked at before the write", "no guard at all", false, held(func(s *shop, ctx context.Context) error {
		balance, err := s.balance(ctx, s.pool)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return s.set(ctx, s.pool, balance-1)
	})},
	{"a row lock in place of the guard", "no guard at all", false, held(func(s *shop, ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT FROM accounts WHERE id = 42 FOR UPDATE"); err != nil {
				return err
			}
			return s.withdraw(ctx, tx, tx)
		})
	})},
	{"SERIALIZABLE in place of the guard", "no guard at all", false, held(func(s *shop, ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error { return s.withdraw(ctx, tx, tx) })
	})},
	{"a guard that only observes", "no guard at all", false, func(s *shop) func(context.Context) error {
		s.fence.DangerouslyReportOnly = true
		return s.guarded
	}},
	{"a name made by another format", "wrong name", false, held(func(s *shop, ctx context.Context) error {
		return s.fence.Update(ctx, fmt.Sprintf("account/%05d", 42), func(tx pgx.Tx) error { return s.withdraw(ctx, tx, tx) })
	})},
	{"Update inside Update, over the pool", "one unit in two transactions", false, held(func(s *shop, ctx context.Context) error {
		return s.update(ctx, func(tx pgx.Tx) error {
			return s.update(ctx, func(inner pgx.Tx) error { return s.withdraw(ctx, tx, inner) })
		})
	})},
	{"a lock on the row that Do waits for itself", "write over the pool", false, func(s *shop) func(context.Context) error {
		s.fence.IdleTimeout = 500 * time.Millisecond // each attempt takes that long
		return held(func(s *shop, ctx context.Context) error {
			return s.update(ctx, func(tx pgx.Tx) error {
				return errors.Join(s.withdraw(ctx, tx, tx), s.withdraw(ctx, s.pool, s.pool))
			})
		})(s)
	}},
	{"an Admit in the middle of a transaction of one's own", "check, then write", false, held(func(s *shop, ctx context.Context) error {
		tok, err := token.FromContext(ctx, "account/42")
		if err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			balance, err := s.balance(ctx, tx)
			if err := errors.Join(err, s.fence.Admit(ctx, tok)); err != nil {
				return err
			}
			return s.set(ctx, tx, balance-1)
		})
	})},
	{"an outbox written over the pool inside Update", "write over the pool|outbox written outside the transaction", true, held(func(s *shop, ctx context.Context) error {
		return s.update(ctx, func(tx pgx.Tx) error {
			_, err := s.pool.Exec(ctx, "INSERT INTO outbox VALUES ('withdrawn')")
			return errors.Join(err, s.withdraw(ctx, tx, tx))
		})
	})},
	{"an outbox written before Update", "outbox written outside the transaction", true, held(func(s *shop, ctx context.Context) error {
		if _, err := s.pool.Exec(ctx, "INSERT INTO outbox VALUES ('to be withdrawn')"); err != nil {
			return err
		}
		return s.work(ctx)
	})},
	{"a log written by On, the account over the pool", "only the first of two statements guarded|outbox written outside the transaction", true, held(func(s *shop, ctx context.Context) error {
		if _, err := s.fence.On("account/42").Exec(ctx, "INSERT INTO outbox VALUES ('withdrawn')"); err != nil {
			return err
		}
		return s.withdraw(ctx, s.pool, s.pool)
	})},
	{"a savepoint of SQL's own rolled back after Join", "savepoint rolled back after Join", true, held(func(s *shop, ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SAVEPOINT optional")
			if err := errors.Join(err, s.fence.Join(ctx, tx, "account/42")); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "ROLLBACK TO optional"); err != nil {
				return err
			}
			return s.withdraw(ctx, tx, tx)
		})
	})},
	{"a guard on a nested transaction that is rolled back", "savepoint rolled back after Join", true, held(func(s *shop, ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			inner := sqlguard.Guard{DB: tx, Schema: s.schema}
			optional := errors.New("optional")
			err := inner.Update(ctx, "account/42", func(pgx.Tx) error { return optional })
			if !errors.Is(err, optional) {
				return err
			}
			return s.withdraw(ctx, tx, tx)
		})
	})},
	{"the outer context, when the tokens were looked at", "outer context", false, byItself(func(s *shop, ctx context.Context) error {
		_ = token.All(ctx) // for a log
		return s.hold(ctx, func(context.Context) error {
			return s.work(ctx)
		})
	})},
	{"the outer context, after a row that was written before Hold", "outer context", false, byItself(func(s *shop, ctx context.Context) error {
		if _, err := s.pool.Exec(ctx, "INSERT INTO outbox VALUES ('asked')"); err != nil {
			return err
		}
		return s.hold(ctx, func(context.Context) error {
			return s.work(ctx)
		})
	})},
	{"a write after Hold", "a write after Hold", true, byItself(func(s *shop, ctx context.Context) error {
		var balance int
		err := s.hold(ctx, func(ctx context.Context) error {
			return s.update(ctx, func(tx pgx.Tx) (err error) { balance, err = s.balance(ctx, tx); return err })
		})
		if err != nil {
			return err
		}
		return s.set(ctx, s.pool, balance-1)
	})},
	{"a write before Hold", "a write before Hold", true, byItself(func(s *shop, ctx context.Context) error {
		if err := s.withdraw(ctx, s.pool, s.pool); err != nil {
			return err
		}
		return s.hold(ctx, func(ctx context.Context) error {
			return s.update(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE accounts SET mark = mark + 1 WHERE id = 42")
				return err
			})
		})
	})},
	{"two names for one row, by the caller", "two names for one row|wrong name", false, func(s *shop) func(context.Context) error {
		names := []string{"account/42", "account:42"}
		return func(ctx context.Context) error {
			name := names[s.units.Add(1)%2]
			return s.locks.Hold(ctx, name, func(ctx context.Context) error {
				return s.fence.Update(ctx, name, func(tx pgx.Tx) error { return s.withdraw(ctx, tx, tx) })
			})
		}
	}},
	{"an unclaimed read by On, and a write by On", "read before Update without Claim", false, unclaimed(func(s *shop, ctx context.Context) error {
		return s.withdraw(ctx, s.pool, s.fence.On("account/42"))
	})},
}

// conditional is a program with its own fence in the row.
func conditional(where, set string) program {
	return held(func(s *shop, ctx context.Context) error { return conditionally(ctx, s, where, set) })
}

func conditionally(ctx context.Context, s *shop, where, set string) error {
	tok, err := token.FromContext(ctx, "account/42")
	if err != nil {
		return err
	}
	balance, err := s.balance(ctx, s.pool)
	if err != nil {
		return err
	}
	tag, err := s.pool.Exec(ctx, "UPDATE accounts SET balance = $1, "+set+" WHERE id = 42 AND $2::bigint > 0 AND "+where, balance-1, tok.Number)
	if err == nil && tag.RowsAffected() == 0 {
		return guard.ErrStale
	}
	return err
}

// The verdict on another form of a mistake names it too.
func TestStressOtherSpellingsAreNamed(t *testing.T) { nameOthers(t, pgxpoint.Tracer{}) }

func TestStressOtherSpellingsAreNamedWithoutATracer(t *testing.T) { nameOthers(t, nil) }

func nameOthers(t *testing.T, tracer pgx.QueryTracer) {
	t.Parallel()
	for _, c := range others {
		if tracer == nil && c.unseen {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, tracer)
			began := time.Now()
			check := checkPlanned
			if c.name == keptLease { // the plan lacks it
				check = func(t *testing.T, s simulations.Subject) error { t.Helper(); return simulations.Check(t, s) }
			}
			err := check(t, untilFoundAs(c.says, s.subject(c.make(s))))
			t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
			requireLikely(t, err, c.says)
		})
	}
}

// If errors.Is finds no refusal in an error, the error does not affect the verdict.
func TestARefusalThatErrorsIsDoesNotFindIsReported(t *testing.T) {
	t.Parallel()
	for told, format := range map[bool]string{true: "withdraw: %v", false: "withdraw: %w"} {
		s := openShop(t, pgxpoint.Tracer{})
		err := simulations.Check(t, some(s.subject(func(ctx context.Context) error {
			if err := s.guarded(ctx); err != nil {
				return fmt.Errorf(format, err)
			}
			return nil
		})))
		if told {
			require.ErrorContains(t, err, "errors.Is finds no refusal")
		} else {
			require.NoError(t, err)
		}
	}
}

// requireLikely requires that one of several mistakes is named, and is the first.
func requireLikely(t *testing.T, err error, says string) {
	t.Helper()
	require.Error(t, err)
	alternatives := strings.Split(says, "|")
	_, likely, _ := strings.Cut(err.Error(), "\nLikely: ")
	require.True(t, slices.ContainsFunc(alternatives, func(says string) bool {
		return strings.HasPrefix(likely, says)
	}), "%q is not the first likely cause in: %v", alternatives, err)
}
