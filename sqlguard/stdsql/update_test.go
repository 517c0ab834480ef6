package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestUpdateIsApplied(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		ctx := holding(t, 33, "a")
		require.NoError(t, db.update(ctx, add(ctx, 10)), "a token that was not claimed")
		require.NoError(t, db.update(ctx, add(ctx, 10)), "the holder's second write")
		require.Equal(t, 120, balance(t, db))
		require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))
	})
}

// hazard G4
func TestUpdateIsRefused(t *testing.T) {
	t.Parallel()
	released := func(t *testing.T) (ctx context.Context) {
		locker := lock.Locker{Issuer: new(memtoken.Issuer), DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(t.Context(), account, func(held context.Context) error {
			ctx = context.WithoutCancel(held)
			return nil
		}))
		return ctx
	}
	other := func(t *testing.T) context.Context {
		return token.NewContext(t.Context(), token.Token{Resource: "account/43", Number: 34, Holder: "a"})
	}
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		for _, c := range []struct {
			name string
			ctx  context.Context
			want error
		}{
			{"a lesser number", holding(t, 32, "b"), guard.ErrStale},
			{"a lesser number of the same holder", holding(t, 32, "a"), guard.ErrStale},
			{"an equal number of another holder", holding(t, 33, "b"), guard.ErrCollision},
			{"no token", t.Context(), token.ErrMissing},
			{"a token of another resource", other(t), token.ErrMissing},
			{"a token whose lease was released", released(t), token.ErrReleased},
			{"a token without a holder", holding(t, 34, ""), token.ErrInvalid},
		} {
			var refused []error
			g := db.guard()
			g.Hooks.Refused = func(_ context.Context, err error) { refused = append(refused, err) }
			err := g.Update(c.ctx, account, func(*sql.Tx) error {
				t.Error("fn must not run")
				return nil
			})
			require.ErrorIs(t, err, c.want, c.name)
			require.True(t, guard.IsRefusal(err), c.name)
			require.Equal(t, []error{err}, refused, c.name)
			var stale *guard.StaleError
			if errors.As(err, &stale) {
				require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, stale.Mark, c.name)
			}
			require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account), c.name)
			ctx := holding(t, 33, "a")
			before := balance(t, db)
			require.NoError(t, db.update(ctx, add(ctx, 10)), "the connection must be fit for use")
			require.Equal(t, before+10, balance(t, db))
		}
	})
}

func TestUpdateAll(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		g := db.guard()
		other := token.Token{Resource: "account/43", Number: 7, Holder: "a"}
		ctx := token.NewContext(holding(t, 33, "a"), other)

		require.NoError(t, g.UpdateAll(ctx, []string{other.Resource, account, other.Resource}, add(ctx, 10)), "each resource once")
		require.Equal(t, int64(33), db.mark(t, account).Number)
		require.Equal(t, int64(7), db.mark(t, other.Resource).Number)
		require.Equal(t, 110, balance(t, db))

		newer := token.NewContext(ctx, tok(34, "b"))
		newer = token.NewContext(newer, token.Token{Resource: other.Resource, Number: 6, Holder: "b"})
		require.ErrorIs(t, g.UpdateAll(newer, []string{account, other.Resource}, add(newer, 10)), guard.ErrStale)
		require.Equal(t, int64(33), db.mark(t, account).Number, "one refusal takes all admissions back")
		require.Equal(t, 110, balance(t, db))

		var missing *token.MissingError
		require.ErrorAs(t, g.UpdateAll(t.Context(), []string{"b", "a/10", "a/1"}, add(ctx, 10)), &missing)
		require.Equal(t, "a/1", missing.Resource, "in bytewise order")
		require.EqualError(t, g.UpdateAll(ctx, nil, add(ctx, 10)), "stdsql: no resources")
	})
}

func TestWhatFnReturnsRollsBack(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		db.SetMaxOpenConns(1) // a connection that was not returned, or has changed settings, would be detected
		ctx := holding(t, 33, "a")
		broke := errors.New("insufficient funds")
		spend := func(end func() error) func(tx *sql.Tx) error {
			return func(tx *sql.Tx) error {
				require.NoError(t, write(ctx, tx, 0))
				return end()
			}
		}
		require.Equal(t, broke, db.update(ctx, spend(func() error { return broke })), "an error is returned as it is")
		require.Equal(t, 100, balance(t, db))
		require.PanicsWithError(t, broke.Error(), func() {
			_ = db.update(ctx, spend(func() error { panic(broke) }))
		}, "a panic goes on")
		require.Equal(t, 100, balance(t, db))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = db.update(ctx, spend(func() error { runtime.Goexit(); return nil }))
		}()
		<-done
		require.Equal(t, 100, balance(t, db), "the end of the goroutine")
	})
}

// hazard G16
func TestTokensWithoutAHolderDoNotPassForOneAnother(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		run(t, db, "CREATE TABLE naive (number INTEGER, holder VARCHAR(200))")
		run(t, db, "INSERT INTO naive VALUES (32, 'b')")
		for process := range 2 {
			const admitted = "FROM naive WHERE number < 33 OR number = 33 AND holder = ''"
			require.Equal(t, 1, one[int](t, db, "SELECT count(*) "+admitted), "the twin must admit process %d", process)
			run(t, db, "UPDATE naive SET number = 33, holder = ''")

			ctx := holding(t, 33, "")
			require.ErrorIs(t, db.update(ctx, add(ctx, 10)), token.ErrInvalid)
		}
		require.Equal(t, 100, balance(t, db))
	})
}
