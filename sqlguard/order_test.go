package sqlguard_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// In these tests A holds token 33 and is paused, B holds 34. Each naive twin
// is what people write instead of a fence, and has to let A's write through.

func TestPausedBetweenCheckAndWrite(t *testing.T) {
	t.Parallel()
	// hazard G1
	t.Run("a mark that is read first and then trusted lets the stale write in", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		checked := e.mark(resource) == "33 h33" // A's token is the newest, and here A is paused
		require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(e.bounded(), "B")))
		if checked {
			e.exec("UPDATE accounts SET writer = 'A' WHERE id = 42")
		}
		require.Equal(t, "A", e.writer(), "the twin must be corrupted")
	})
	// hazard G1
	t.Run("the guard refuses it", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		for name := range doors(e, e.guard) {
			e.exec("DELETE FROM marks")
			e.admitted(33)
			require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(e.bounded(), "B")))
			require.ErrorIs(t, doors(e, e.guard)[name](e.ctx(33), "A"), guard.ErrStale, name)
			require.Equal(t, "B", e.writer(), name)
		}
	})
	// hazard G2
	t.Run("asking the lock once more does not help", func(t *testing.T) {
		t.Parallel()
		e, locks := newEnv(t), &memtoken.Issuer{}
		a, err := locks.Acquire(t.Context(), resource, "A", 50*time.Millisecond)
		require.NoError(t, err)
		_, err = locks.Renew(t.Context(), a.Token, 50*time.Millisecond)
		checked := err == nil // the lock is A's, and here A is paused
		b := e.successor(locks)
		require.NoError(t, e.guard.Update(token.NewContext(e.bounded(), b), resource, e.write(e.bounded(), "B")))
		if checked {
			e.exec("UPDATE accounts SET writer = 'A' WHERE id = 42")
		}
		require.Equal(t, "A", e.writer(), "the twin must be corrupted")
		require.ErrorIs(t, e.guard.Update(token.NewContext(e.bounded(), a.Token), resource, e.write(e.bounded(), "A")), guard.ErrStale)
	})
}

// successor waits for the lock, which runs out, and returns B's token.
func (e *env) successor(locks token.Issuer) token.Token {
	e.t.Helper()
	b, err := (&token.Locker{Issuer: locks, Name: "B"}).Acquire(e.bounded(), resource)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, b.Release(e.t.Context())) })
	return b.Token()
}

func TestReadModifyWrite(t *testing.T) {
	t.Parallel()
	add := func(e *env, number, to int64) error {
		_, err := e.guard.On(resource).Exec(e.ctx(number), e.sql("UPDATE accounts SET balance = $1 WHERE id = 42"), to)
		return err
	}
	// hazard G3
	t.Run("fenced on the write only, an acknowledged update is lost", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		read := e.balance()                     // B reads 100
		require.NoError(t, add(e, 33, 50))      // A takes 50 out, and may: B has not written yet
		require.NoError(t, add(e, 34, read+10)) // B writes what it has read, and ten more
		require.Equal(t, int64(110), e.balance(), "the twin must lose A's 50")
	})
	// hazard G3
	t.Run("claimed before the read, the older token is refused", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33, 34)
		read := e.balance()
		require.ErrorIs(t, add(e, 33, 50), guard.ErrStale)
		require.NoError(t, add(e, 34, read+10))
		require.Equal(t, int64(110), e.balance())
	})
	// hazard G3
	t.Run("Update admits before fn reads", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		ctx := e.ctx(34)
		err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
			var read int64
			err := tx.QueryRow(ctx, e.sql("SELECT balance FROM accounts WHERE id = 42")).Scan(&read)
			require.NoError(t, err)
			require.ErrorIs(t, add(e, 33, 50), guard.ErrStale)
			_, err = tx.Exec(ctx, e.sql("UPDATE accounts SET balance = $1 WHERE id = 42"), read+10)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, int64(110), e.balance())
	})
}

// hazard G5
func TestOrderDecides(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	equal := func(number int64, writer string) int64 {
		tag, err := e.pool.Exec(t.Context(), e.sql(`UPDATE accounts SET writer = $1 WHERE id = 42
			AND EXISTS (SELECT FROM marks WHERE resource = $2 AND number = $3)`), writer, resource, number)
		require.NoError(t, err)
		return tag.RowsAffected()
	}
	require.Zero(t, equal(34, "B"), "the twin must refuse the new holder")
	require.Equal(t, int64(1), equal(33, "A"), "and let the old one in")

	require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(e.bounded(), "B")))
	require.ErrorIs(t, e.guard.Update(e.ctx(33), resource, e.write(e.bounded(), "A")), guard.ErrStale)
	require.Equal(t, "B", e.writer())
}

// hazard G14
func TestNumbersAreNumbers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.exec("CREATE TABLE ledger (number text)")
	e.exec("INSERT INTO ledger VALUES ('9')")
	raised, err := e.pool.Exec(t.Context(), e.sql("UPDATE ledger SET number = '10' WHERE number < '10'"))
	require.NoError(t, err)
	require.Zero(t, raised.RowsAffected(), "the twin, marks kept as text, must refuse the newer")
	require.NoError(t, e.guard.Update(e.ctx(9), resource, e.write(e.bounded(), "A")))
	require.NoError(t, e.guard.Update(e.ctx(10), resource, e.write(e.bounded(), "B")))
	require.ErrorIs(t, e.guard.Update(e.ctx(9), resource, e.write(e.bounded(), "A")), guard.ErrStale)
	require.Equal(t, "B", e.writer())
}
