package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestUpdateIsApplied(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	ctx := holding(t, 33, "a")
	require.NoError(t, stdsql.Update(ctx, db, account, add(ctx, 10)))
	require.NoError(t, stdsql.Update(ctx, db, account, add(ctx, 10)), "the holder's second write")
	require.Equal(t, 120, balance(t, db))
	require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, mark(t, db, account))
}

// hazard G4
func TestUpdateIsRefused(t *testing.T) {
	t.Parallel()
	released := func(t *testing.T) (ctx context.Context) {
		locker := token.Locker{Issuer: new(memtoken.Issuer)}
		require.NoError(t, locker.Hold(t.Context(), account, func(held context.Context) error {
			ctx = context.WithoutCancel(held)
			return nil
		}))
		return ctx
	}
	for _, c := range []struct {
		name string
		ctx  func(t *testing.T) context.Context
		want error
	}{
		{"a lesser number", func(t *testing.T) context.Context { return holding(t, 32, "b") }, guard.ErrStale},
		{"a lesser number of the same holder", func(t *testing.T) context.Context { return holding(t, 32, "a") }, guard.ErrStale},
		{"an equal number of another holder", func(t *testing.T) context.Context { return holding(t, 33, "b") }, guard.ErrCollision},
		{"no token", func(t *testing.T) context.Context { return t.Context() }, token.ErrMissing},
		{"a token of another resource", func(t *testing.T) context.Context {
			return token.NewContext(t.Context(), token.Token{Resource: "account/43", Number: 34, Holder: "a"})
		}, token.ErrMissing},
		{"a token whose lease was released", released, token.ErrReleased},
		{"a token without a holder", func(t *testing.T) context.Context { return holding(t, 34, "") }, token.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDB(t)
			var told []error
			g := &stdsql.Guard{DB: db, Observer: guard.Observer{
				Refused: func(_ context.Context, err error) { told = append(told, err) },
			}}
			require.NoError(t, g.Admit(t.Context(), tok(33, "a")))

			err := g.Update(c.ctx(t), account, func(*sql.Tx) error {
				t.Error("fn must not run")
				return nil
			})
			require.ErrorIs(t, err, c.want)
			require.True(t, guard.Refusal(err))
			require.Equal(t, []error{err}, told)
			require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, mark(t, db, account))
			ctx := holding(t, 33, "a")
			require.NoError(t, g.Update(ctx, account, add(ctx, 10)), "the connection must be fit for use")
		})
	}
}

func TestUpdateAll(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	g := &stdsql.Guard{DB: db}
	other := token.Token{Resource: "account/43", Number: 7, Holder: "a"}
	ctx := token.NewContext(holding(t, 33, "a"), other)

	t.Run("admits each resource once", func(t *testing.T) {
		require.NoError(t, g.UpdateAll(ctx, []string{other.Resource, account, other.Resource}, add(ctx, 10)))
		require.Equal(t, int64(33), mark(t, db, account).Number)
		require.Equal(t, int64(7), mark(t, db, other.Resource).Number)
		require.Equal(t, 110, balance(t, db))
	})
	t.Run("one refusal takes all admissions back", func(t *testing.T) {
		newer := token.NewContext(ctx, tok(34, "b"))
		newer = token.NewContext(newer, token.Token{Resource: other.Resource, Number: 6, Holder: "b"})
		require.ErrorIs(t, g.UpdateAll(newer, []string{account, other.Resource}, add(newer, 10)), guard.ErrStale)
		require.Equal(t, int64(33), mark(t, db, account).Number)
		require.Equal(t, 110, balance(t, db))
	})
	t.Run("judges in bytewise order", func(t *testing.T) {
		var missing *token.MissingError
		require.ErrorAs(t, g.UpdateAll(t.Context(), []string{"b", "a/10", "a/1"}, add(ctx, 10)), &missing)
		require.Equal(t, "a/1", missing.Resource)
	})
	t.Run("no resource is an error", func(t *testing.T) {
		require.EqualError(t, g.UpdateAll(ctx, nil, add(ctx, 10)), "stdsql: no resource was named")
	})
}

func TestWhatFnReturnsRollsBack(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	db.SetMaxOpenConns(1) // a connection that was not given back, or not clean, would show
	ctx := holding(t, 33, "a")
	broke := errors.New("insufficient funds")
	spend := func(end func() error) func(tx *sql.Tx) error {
		return func(tx *sql.Tx) error {
			require.NoError(t, write(ctx, tx, 0))
			return end()
		}
	}
	untouched := func(t *testing.T) {
		require.Equal(t, 100, balance(t, db))
		require.Zero(t, mark(t, db, account))
	}
	t.Run("an error, which is returned as it is", func(t *testing.T) {
		require.Equal(t, broke, stdsql.Update(ctx, db, account, spend(func() error { return broke })))
		untouched(t)
	})
	t.Run("a panic, which goes on", func(t *testing.T) {
		require.PanicsWithError(t, broke.Error(), func() {
			_ = stdsql.Update(ctx, db, account, spend(func() error { panic(broke) }))
		})
		untouched(t)
	})
	t.Run("the end of the goroutine", func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = stdsql.Update(ctx, db, account, spend(func() error { runtime.Goexit(); return nil }))
		}()
		<-done
		untouched(t)
	})
}

func TestAGuardThatCannotWork(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	ctx := holding(t, 33, "a")
	require.EqualError(t, stdsql.Update(ctx, nil, account, add(ctx, 10)), "stdsql: Guard has no DB")
	readOnly := &stdsql.Guard{DB: db, Tx: &sql.TxOptions{ReadOnly: true}}
	require.EqualError(t, readOnly.Update(ctx, account, add(ctx, 10)), "stdsql: Guard.Tx is read only: an admission is a write")

	run(t, db, "DROP TABLE fencepost_marks")
	err := stdsql.Update(ctx, db, account, add(ctx, 10))
	require.ErrorContains(t, err, "what package migrations creates")
	require.ErrorContains(t, err, "no such table: fencepost_marks")
	require.False(t, guard.Refusal(err), "a guard without marks refuses nobody, and admits nobody")
	require.Equal(t, 100, balance(t, db))
}

// hazard G16
func TestTokensWithoutAHolderDoNotPassForOneAnother(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	run(t, db, "CREATE TABLE naive (resource TEXT PRIMARY KEY, number INTEGER, holder TEXT)")
	for process := range 2 {
		result, err := db.ExecContext(t.Context(), `INSERT INTO naive VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET number = ?2
			WHERE number < ?2 OR number = ?2 AND holder = ?3`, account, 33, "")
		require.NoError(t, err)
		rows, err := result.RowsAffected()
		require.NoError(t, err)
		require.EqualValues(t, 1, rows, "the twin must admit process %d", process)

		ctx := holding(t, 33, "")
		require.ErrorIs(t, stdsql.Update(ctx, db, account, add(ctx, 10)), token.ErrInvalid)
	}
	require.Equal(t, 100, balance(t, db))
}
