package simulations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
)

// onceProgram makes a DoOnce.
type onceProgram[S holder] = func(s S) func(ctx context.Context, key string) error

// receipts checks that all tries of a unit get the same result.
type receipts struct {
	mu    sync.Mutex
	first map[string]string // by key
}

var errOtherReceipt = errors.New("a repeat got another result")

func (r *receipts) compare(key string, result []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil {
		r.first = map[string]string{}
	}
	first, known := r.first[key]
	if !known {
		r.first[key] = string(result)
	} else if first != string(result) {
		return fmt.Errorf("%w: %q, and then %q", errOtherReceipt, first, result)
	}
	return nil
}

// withdrawal names a unit of account 42.
func withdrawalOf(key string) guard.Unit {
	return guard.Unit{Key: "withdrawal/" + key, Fingerprint: "1"}
}

// once withdraws 1 once, and returns the balance.
func (s *shop) once(ctx context.Context, key string) ([]byte, error) {
	return s.fence.Once(ctx, "account/42", withdrawalOf(key), func(tx pgx.Tx) ([]byte, error) {
		err := s.withdraw(ctx, tx, tx)
		if err != nil {
			return nil, err
		}
		balance, err := s.balance(ctx, tx)
		return fmt.Append(nil, balance), err
	})
}

func (s *till) once(ctx context.Context, key string) ([]byte, error) {
	return s.fence.Once(ctx, "account/42", withdrawalOf(key), func(tx *sql.Tx) ([]byte, error) {
		if err := s.withdraw(ctx, tx, tx); err != nil {
			return nil, err
		}
		balance, err := s.balance(ctx, tx)
		return fmt.Append(nil, balance), err
	})
}

// onceHolder is a shop or a till.
type onceHolder interface {
	holder
	once(ctx context.Context, key string) ([]byte, error)
}

// blindly repeats Once after any error, three times under each token, until it returns a
// result.
func blindly[S onceHolder](s S) func(context.Context, string) error {
	var got receipts
	return func(ctx context.Context, key string) error {
		for {
			err := s.hold(ctx, func(ctx context.Context) (err error) {
				for range 3 {
					var result []byte
					if result, err = s.once(ctx, key); err == nil {
						return got.compare(key, result)
					}
				}
				return err
			})
			if err == nil || errors.Is(err, errOtherReceipt) || ctx.Err() != nil {
				return err
			}
		}
	}
}

// underOneToken repeats Once three times under the token that it is given.
func underOneToken[S onceHolder](s S) func(context.Context, string) error {
	var got receipts
	return func(ctx context.Context, key string) (err error) {
		for range 3 {
			var result []byte
			if result, err = s.once(ctx, key); err == nil {
				return got.compare(key, result)
			}
		}
		return err
	}
}

// onceSubject declares that all writers do one unit.
func onceSubject(s simulations.Subject, do func(context.Context, string) error) simulations.Subject {
	s.Do, s.DoOnce = nil, do
	return s
}

// requireRepeats requires that the run has lost answers, and that repeats got the first
// result.
func requireRepeats(t *testing.T, covered string, drops bool) {
	t.Helper()
	require.Regexp(t, `; \d+ tries of a unit got its first result`, covered)
	if drops {
		require.Regexp(t, `; \d+ answers to writes were lost`, covered)
		require.NotContains(t, covered, "no write was lost before it reached its server")
	}
	for _, gap := range []string{"no tracer", "outside a guard", "went around"} {
		require.NotContains(t, covered, gap)
	}
}

// Once, repeated blindly by all holders, is applied once.
func runOnce(t *testing.T, try scope) {
	for name, program := range map[string]onceProgram[*shop]{
		"repeated under new tokens": blindly[*shop],
		"repeated under one token":  underOneToken[*shop],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, pgxpoint.Tracer{})
			subject := onceSubject(s.subject(nil), program(s))
			subject.Claim = s.fence.Admit
			covered, err := simulations.Cover(t.Context(), try(subject))
			require.NoError(t, err)
			requireRepeats(t, covered, true)
		})
	}
}

func runOnceOverDatabaseSQL(t *testing.T, try scope) {
	for _, name := range []string{"PostgreSQL", "MariaDB", "SQLite"} {
		for how, program := range map[string]onceProgram[*till]{
			"repeated under new tokens": blindly[*till],
			"repeated under one token":  underOneToken[*till],
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				s := tills[name](t)
				subject := onceSubject(s.subject(nil), program(s))
				subject.Claim = s.fence.Admit
				covered, err := simulations.Cover(t.Context(), try(subject))
				require.NoError(t, err)
				requireRepeats(t, covered, name != "SQLite")
			})
		}
	}
}
