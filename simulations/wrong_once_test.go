package simulations_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/simulations"
)

const (
	twice = "account/42: applied twice: "
	lost  = "account/42: lost: "
)

// record is what a program does by itself to recognize a repeat. It reports whether the
// unit is new.
func (s *shop) record(ctx context.Context, db querier, key string) (bool, error) {
	tag, err := db.Exec(ctx, "INSERT INTO outbox SELECT $1::text WHERE NOT EXISTS (SELECT FROM outbox WHERE text = $1)", key)
	return err == nil && tag.RowsAffected() == 1, err
}

// recorded reports whether the unit is recorded.
func (s *shop) recorded(ctx context.Context, key string) (known bool, err error) {
	err = s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM outbox WHERE text = $1)", key).Scan(&known)
	return known, err
}

// wrongOnce are programs that should apply a unit once, with one mistake each: what the
// verdict must say, and the likely cause that it must name.
var wrongOnce = []struct {
	name, verdict, says string
	try                 func(s *shop, ctx context.Context, key string) error
}{
	{"Update instead of Once", twice, "Update instead of Once", func(s *shop, ctx context.Context, _ string) error {
		return repeated(func() error { return s.work(ctx) }, guard.ErrUnknown)
	}},
	{"Once, and Update after an unknown", twice, "retry after unknown", func(s *shop, ctx context.Context, key string) error {
		_, err := s.once(ctx, key)
		for errors.Is(err, guard.ErrUnknown) {
			err = s.work(ctx)
		}
		return err
	}},
	{"recorded in a transaction before", lost, "unit recorded outside of the write's transaction", func(s *shop, ctx context.Context, key string) error {
		if isNew, err := s.record(ctx, s.pool, key); err != nil || !isNew {
			return err
		}
		return s.work(ctx)
	}},
	{"recorded in a transaction after", twice, "unit recorded outside of the write's transaction", func(s *shop, ctx context.Context, key string) error {
		if known, err := s.recorded(ctx, key); err != nil || known {
			return err
		}
		if err := s.work(ctx); err != nil {
			return err
		}
		_, err := s.record(ctx, s.pool, key)
		return err
	}},
	{"a key for each attempt", twice, "a key for each try", func(s *shop, ctx context.Context, key string) error {
		_, err := s.once(ctx, key+"/"+rand.Text())
		return err
	}},
	{"the same key for all units", lost, "one key for two units", func(s *shop, ctx context.Context, _ string) error {
		_, err := s.once(ctx, "withdrawal")
		return err
	}},
	{"a key without the resource", lost, "one key for two units", func(s *shop, ctx context.Context, key string) error {
		for _, name := range []string{"account/7", "account/42"} {
			err := s.locks.Hold(ctx, name, func(ctx context.Context) error {
				return s.fence.Update(ctx, name, func(tx pgx.Tx) error {
					isNew, err := s.record(ctx, tx, key)
					if err != nil || !isNew || name == "account/7" {
						return err
					}
					return s.withdraw(ctx, tx, tx)
				})
			})
			if err != nil {
				return err
			}
		}
		return nil
	}},
	{"the result of a try that was rolled back", lost, "result of a try that was not applied", func(s *shop, ctx context.Context, key string) error {
		var balance int
		_, err := s.fence.Once(ctx, "account/42", withdrawalOf(key), func(tx pgx.Tx) (_ []byte, err error) {
			if err = s.withdraw(ctx, tx, tx); err == nil {
				balance, err = s.balance(ctx, tx)
			}
			return nil, err
		})
		if err != nil && balance == 0 {
			return err
		}
		return nil
	}},
	{"a refusal taken for a unit that is done", lost, "a refusal swallowed", func(s *shop, ctx context.Context, key string) error {
		_, err := s.once(ctx, key)
		if errors.Is(err, guard.ErrStale) {
			return nil // "the other one does it"
		}
		return err
	}},
}

// The verdict on a program that does not apply a unit once says whether it was applied
// twice or lost, and names the mistake.
func TestWrongTriesAreNamed(t *testing.T)       { nameTries(t) }
func TestStressWrongTriesAreNamed(t *testing.T) { nameTries(t) }

func nameTries(t *testing.T) {
	t.Parallel()
	for _, c := range wrongOnce {
		for tracing, tracer := range testenv.Some(t, tracers, traced) {
			t.Run(c.name+"/"+tracing, func(t *testing.T) {
				t.Parallel()
				s := openShop(t, tracer)
				err := checkPlanned(t, untilFound(onceSubject(s.subject(nil), func(ctx context.Context, key string) error {
					if c.name == "a key without the resource" {
						return c.try(s, ctx, key)
					}
					return s.hold(ctx, func(ctx context.Context) error { return c.try(s, ctx, key) })
				})))
				t.Log(err)
				var verdict *simulations.Verdict
				require.ErrorAs(t, err, &verdict)
				require.True(t, verdict.Breaks("once"))
				require.ErrorContains(t, err, c.verdict)
				require.ErrorContains(t, err, "Likely: "+c.says)
			})
		}
	}
}
