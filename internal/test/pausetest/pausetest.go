// Package pausetest tests the case that Fencepost is for: a holder is paused past the end
// of its lease, a successor writes, and the holder resumes and writes too. It runs with
// any lock, over Update and On. The holder is no process: it is paused by doing nothing.
// Package simulations/process pauses processes.
package pausetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Lock waits for the resource and returns a token for it. The lock behind it must not be
// renewed, since its holder is then paused.
type Lock func(ctx context.Context, resource, holder string) (token.Token, error)

// Run runs the case on a real PostgreSQL with the lock that newLock makes: the late write
// is refused with the guard, and overwrites the successor's every time in the report-only
// twin. All cases share one schema, and each has an account of its own.
func Run(t *testing.T, newLock func(t *testing.T, fence *sqlguard.Guard) Lock) {
	pool, schema := testenv.Postgres(t)
	table := pgtest.Accounts(t, pool, schema)
	for n, way := range []struct {
		name  string
		write write
	}{{"Update", byUpdate}, {"On", byOn}} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			t.Run("the late write is refused", func(t *testing.T) {
				t.Parallel()
				fence := &sqlguard.Guard{DB: pool, Schema: schema}
				balance, err := pauseAndWrite(t, newLock(t, fence), fence, way.write, newAccount(t, pool, table, 2*n))
				require.ErrorIs(t, err, guard.ErrStale)
				require.Equal(t, 110, balance, "the successor's value is kept")
			})
			t.Run("report-only, the same code is corrupted", func(t *testing.T) {
				t.Parallel()
				fence := &sqlguard.Guard{DB: pool, Schema: schema, DangerouslyReportOnly: true, Hooks: quiet}
				balance, err := pauseAndWrite(t, newLock(t, fence), fence, way.write, newAccount(t, pool, table, 2*n+1))
				require.NoError(t, err)
				require.Equal(t, 50, balance, "the successor's value is overwritten")
			})
		})
	}
}

// write sets the balance of an account.
type write func(ctx context.Context, fence *sqlguard.Guard, row account, balance int) error

func byUpdate(ctx context.Context, fence *sqlguard.Guard, row account, balance int) error {
	return fence.Update(ctx, row.resource, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, row.update, balance)
		return err
	})
}

func byOn(ctx context.Context, fence *sqlguard.Guard, row account, balance int) error {
	_, err := fence.On(row.resource).Exec(ctx, row.update, balance)
	return err
}

// pauseAndWrite returns the final balance and the error of the paused writer.
func pauseAndWrite(t *testing.T, lock Lock, fence *sqlguard.Guard, write write, row account) (int, error) {
	ctx := t.Context()

	a, err := lock(ctx, row.resource, "writer-a")
	require.NoError(t, err)
	seenByA := row.balance(t) // 100; then A is paused

	b, err := lock(ctx, row.resource, "writer-b") // waits until A's lock has expired
	require.NoError(t, err)
	require.NoError(t, write(token.NewContext(ctx, b), fence, row, row.balance(t)+10))

	err = write(token.NewContext(ctx, a), fence, row, seenByA-50) // A resumes
	return row.balance(t), err
}

// account is one row of the table.
type account struct {
	resource        string
	pool            *pgxpool.Pool
	selects, update string
}

// newAccount inserts an account with a balance of 100.
func newAccount(t *testing.T, pool *pgxpool.Pool, table string, id int) account {
	_, err := pool.Exec(t.Context(), "INSERT INTO "+table+" VALUES ($1, 100)", id)
	require.NoError(t, err)
	return account{
		resource: fmt.Sprintf("account/%d", id), pool: pool,
		selects: fmt.Sprintf("SELECT balance FROM %s WHERE id = %d", table, id),
		update:  fmt.Sprintf("UPDATE %s SET balance = $1 WHERE id = %d", table, id),
	}
}

func (a account) balance(t *testing.T) int { return pgtest.Query[int](t, a.pool, a.selects) }

// ShortLease waits for iss like a Locker, with a lease that ends soon and is not renewed.
func ShortLease(iss token.Issuer) Lock {
	return func(ctx context.Context, resource, holder string) (token.Token, error) {
		for {
			grant, err := iss.Acquire(ctx, resource, holder, 50*time.Millisecond)
			if !errors.Is(err, token.ErrHeld) {
				return grant.Token, err
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

var quiet = guard.Hooks{Reported: func(context.Context, error) {}}
