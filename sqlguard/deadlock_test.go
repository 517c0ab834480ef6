package sqlguard_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// hazard G11
func TestTwoResourcesInTwoOrders(t *testing.T) {
	t.Parallel()
	names := [][]string{{"account/42", "account/43"}, {"account/43", "account/42"}}
	tokens := func(e *env, number int64) context.Context {
		return token.NewContext(e.ctx(number), token.Token{Resource: "account/43", Number: number, Holder: "h"})
	}
	t.Run("joined one by one they deadlock, which is retryable", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		var both sync.WaitGroup
		both.Add(2)
		join := func(order []string, number int64) <-chan error {
			return async(func() error {
				return pgx.BeginFunc(t.Context(), e.pool, func(tx pgx.Tx) error {
					first := e.guard.Join(tokens(e, number), tx, order[0])
					both.Done()
					both.Wait()
					if first != nil {
						return first
					}
					return e.guard.Join(tokens(e, number), tx, order[1])
				})
			})
		}
		a, b := join(names[0], 1), join(names[1], 2)
		errs := []error{await(t, a), await(t, b)}
		if !errors.Is(errs[0], guard.ErrRetryable) {
			errs[0], errs[1] = errs[1], errs[0]
		}
		require.Equal(t, []error{guard.ErrRetryable}, outcomes(errs[0]), "the twin must deadlock")
		require.ErrorContains(t, errs[0], "40P01")
	})
	for name, admit := range map[string]func(e *env, ctx context.Context, names []string) error{
		"UpdateAll": func(e *env, ctx context.Context, names []string) error {
			return e.guard.UpdateAll(ctx, names, func(pgx.Tx) error { return nil })
		},
		"Join": func(e *env, ctx context.Context, names []string) error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error { return e.guard.Join(ctx, tx, names...) })
		},
	} {
		t.Run(name+" of all at once never does", func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			for round := range int64(100) {
				older := async(func() error { return admit(e, tokens(e, 2*round+1), names[0]) })
				newer := async(func() error { return admit(e, tokens(e, 2*round+2), names[1]) })
				require.NoError(t, await(t, newer))
				if err := await(t, older); err != nil {
					require.Equal(t, []error{guard.ErrStale}, outcomes(err))
				}
			}
		})
	}
}
