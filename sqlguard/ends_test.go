package sqlguard_test

import (
	"database/sql/driver"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/sqlguard"
)

// hazard G24
func TestAGuardedStatementEndsNoTransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	on := e.guard.On(resource)
	for _, end := range []string{
		"COMMIT", "commit and chain", " /* so */ END", "ABORT", "ROLLBACK", "BEGIN", "START TRANSACTION", "PREPARE TRANSACTION 'x'",
	} {
		_, err := on.Exec(e.ctx(33), end)
		require.ErrorContains(t, err, "is a transaction already", end)
		b := &pgx.Batch{}
		b.Queue(e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42"))
		b.Queue(end)
		require.ErrorContains(t, on.SendBatch(e.ctx(33), b).Close(), "is a transaction already", end)
	}
	require.Empty(t, e.writer(), "nothing was applied")
	b := &pgx.Batch{}
	for _, text := range []string{"SAVEPOINT a", "UPDATE accounts SET writer = 'x' WHERE id = 42", "ROLLBACK TO a", "UPDATE accounts SET writer = 'y' WHERE id = 42"} {
		b.Queue(e.sql(text))
	}
	require.NoError(t, on.SendBatch(e.ctx(33), b).Close())
	require.Equal(t, "y", e.writer(), "savepoints are the caller's")

	t.Run("the twin, which lets the COMMIT pass, goes on behind the fence", func(t *testing.T) {
		tx, err := e.pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context())
		require.NoError(t, e.guard.Join(e.ctx(33), tx, resource))
		_, err = tx.Exec(t.Context(), "COMMIT")
		require.NoError(t, err)
		e.admitted(34)
		require.NoError(t, e.write(t.Context(), "stale")(tx))
		require.Equal(t, "stale", e.writer())
	})
}

// boo is an argument whose own method panics.
type boo struct{}

func (boo) Value() (driver.Value, error) { panic("boo") }

func TestAnArgumentThatPanicsCostsNoConnection(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	e.admitted(33)
	e.claimed(33)
	set := e.sql("UPDATE accounts SET writer = $1 WHERE id = 42")
	for name, call := range map[string]func(){
		"On":     func() { _, _ = e.guard.On(resource).Exec(e.ctx(33), set, boo{}) },
		"Update": func() { _ = e.accounts.Update(e.ctx(33), 42, sqlguard.Set{{"writer", boo{}}}) },
	} {
		require.Panics(t, call, name)
		e.await(name+" gives its connection back", func() bool { return e.pool.Stat().AcquiredConns() == 0 })
	}
	require.Empty(t, e.writer())
}
