package sqlguard_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

// within is the table on a transaction, which is rolled back at the end.
func (e rowsEnv) within(level pgx.TxIsoLevel, change ...func(*sqlguard.Guard)) (*sqlguard.Table, pgx.Tx) {
	tx := e.open(pgx.TxOptions{IsoLevel: level})
	return e.table(e.with(func(g *sqlguard.Guard) {
		g.DB = tx
		for _, c := range change {
			c(g)
		}
	})), tx
}

func TestATableInATransaction(t *testing.T) {
	t.Parallel()
	t.Run("writes there, admitted, for as long as it is not idle for too long", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		accounts, tx := e.within(pgx.ReadCommitted, func(g *sqlguard.Guard) { g.Idle = time.Minute })
		require.NoError(t, accounts.Update(e.ctx(33), 42, someone))
		require.Empty(t, e.writer(), "not committed yet")
		var bound, admitted string
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('fencepost.admitted')").Scan(&bound, &admitted))
		require.Equal(t, "1min", bound)
		require.Contains(t, admitted, "/account/42\n")
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, "33 h33", e.row())
	})
	t.Run("is aborted where the marks table refuses", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.claimed(34)
		accounts, tx := e.within(pgx.ReadCommitted)
		require.ErrorIs(t, accounts.Update(e.ctx(33), 42, someone), guard.ErrStale)
		_, err := tx.Exec(t.Context(), "SELECT 1")
		require.ErrorContains(t, err, "25P02")
	})
	t.Run("can go on where only the row refuses, which has written nothing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		require.NoError(t, e.accounts.Update(e.ctx(34), 42, someone))
		accounts, tx := e.within(pgx.ReadCommitted)
		require.ErrorIs(t, accounts.Update(e.ctx(33), 42, sqlguard.Set{{"writer", "stale"}}), guard.ErrStale)
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, "x", e.writer())
	})
	// hazard G7
	t.Run("is to be run again where its snapshot is older than the row", func(t *testing.T) {
		t.Parallel()
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			e := newRows(t)
			e.claimed(33)
			accounts, tx := e.within(level)
			_, err := tx.Exec(t.Context(), "SELECT 1")
			require.NoError(t, err)
			require.NoError(t, e.accounts.Update(e.ctx(33), 42, someone)) // a peer
			require.Equal(t, []error{guard.ErrRetryable}, outcomes(accounts.Update(e.ctx(33), 42, someone)))
			accounts, _ = e.within(level)
			require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(accounts.Update(e.ctx(34), 42, someone)))
		}
	})
}

// hazard G7
func TestAStaleUpdateUnderAFixedSnapshot(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	pool, _ := wired(t, 1, withSetting("default_transaction_isolation", "serializable"))
	late := e.table(e.with(func(g *sqlguard.Guard) { g.DB = pool }))
	twin, _ := wired(t, 1, withSetting("default_transaction_isolation", "serializable"))
	tx := e.open(pgx.TxOptions{})
	_, err := tx.Exec(t.Context(), e.sql("UPDATE accounts SET last_token = 34, last_holder = 'h34' WHERE id = 42"))
	require.NoError(t, err)
	ctx := e.ctx(33)
	waits := async(func() error { return late.Update(ctx, 42, someone) })
	naive := async(func() error { // to whom 0 rows are stale, and everything else a failure
		tag, err := twin.Exec(ctx, e.sql("UPDATE accounts SET last_token = 33 WHERE id = 42 AND last_token <= 33"))
		if err == nil && tag.RowsAffected() == 0 {
			return guard.ErrStale
		}
		return err
	})
	e.awaitWaiting(2)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []error{guard.ErrRetryable}, outcomes(await(t, waits)), "40001, and not stale")
	require.Empty(t, outcomes(await(t, naive)), "the twin must take it for a failure of the server's")
	require.ErrorIs(t, late.Update(ctx, 42, someone), guard.ErrStale, "which the next run says")
}

// hazard G8
func TestAPausedTransactionOfATableIsEvicted(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	e.claimed(33)
	accounts, tx := e.within(pgx.ReadCommitted, func(g *sqlguard.Guard) { g.Idle = -1 })
	require.NoError(t, accounts.Update(e.ctx(33), 42, someone)) // and here its holder is paused
	newer := e.table(e.with(func(g *sqlguard.Guard) { g.Idle = short }))
	require.NoError(t, newer.Claim(e.bounded(), tokenOf(34)))
	require.Error(t, tx.Commit(t.Context()))
	require.Equal(t, "34 h34", e.row())
	require.Empty(t, e.writer())

	twin := e.open(pgx.TxOptions{}) // whose statement by hand was never admitted
	require.NoError(t, e.write(t.Context(), "A")(twin))
	ctx := e.bounded()
	waits := async(func() error { return newer.Claim(ctx, tokenOf(35)) })
	e.awaitWaiting(1)
	time.Sleep(3 * short)
	require.Empty(t, waits, "the twin must keep its successor waiting")
	require.NoError(t, twin.Rollback(t.Context()))
	require.NoError(t, await(t, waits))
}
