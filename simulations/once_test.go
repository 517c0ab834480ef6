package simulations_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
)

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

const ownUnits = "units of their own"

var waysOfOnce = []string{"one unit, repeated under new tokens", "one unit, repeated under one token", ownUnits}

// subjectsOfOnce are the ways to test s: all writers do one unit, or each its own. A writer
// that is refused after its own unit was applied has not looked it up.
func subjectsOfOnce[S onceHolder](s S, subject simulations.Subject) map[string]simulations.Subject {
	blind := onceSubject(subject, blindly(s))
	one, own := onceSubject(subject, underOneToken(s)), subject
	try := underOneToken(s)
	one.Holds, own.Holds = false, false
	own.Do = func(ctx context.Context) error { return try(ctx, rand.Text()) }
	return map[string]simulations.Subject{waysOfOnce[0]: blind, waysOfOnce[1]: one, ownUnits: own}
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
	for _, name := range waysOfOnce {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, pgxpoint.Tracer{})
			subject := s.subject(nil)
			subject.Claim = s.fence.Admit
			covered, err := simulations.Cover(t.Context(), try(subjectsOfOnce(s, subject)[name]))
			require.NoError(t, err)
			requireRepeats(t, covered, true)
		})
	}
}

func runOnceOverDatabaseSQL(t *testing.T, try scope) {
	for db, open := range testenv.Some(t, tills, "MariaDB") {
		if db == untraced {
			continue // it loses no answers
		}
		ways := waysOfOnce
		if !testenv.Stress(t) {
			ways = ways[:1]
		}
		for _, name := range ways {
			t.Run(db+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := open(t)
				subject := s.subject(nil)
				subject.Claim = s.fence.Admit
				covered, err := simulations.Cover(t.Context(), try(subjectsOfOnce(s, subject)[name]))
				require.NoError(t, err)
				if db != "SQLite" || name != ownUnits { // it loses no answer, so no unit of one's own is repeated
					requireRepeats(t, covered, db != "SQLite")
				}
			})
		}
	}
}
