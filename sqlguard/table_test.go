package sqlguard_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
)

func TestTableInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			pool, w := wired(t, 1, inMode(mode))
			conn, err := pool.Acquire(t.Context())
			require.NoError(t, err)
			plain := conn.Conn()
			for kind, db := range map[string]sqlguard.DB{"a connection": plain, "a pool's connection": conn, "a wrapper": wrapper{plain}} {
				for name, door := range rowDoors(e.env, e.table(e.with(func(g *sqlguard.Guard) { g.DB = db }))) {
					t.Run(name+" on "+kind, func(t *testing.T) { throughRow(t, e.env, door) })
				}
			}
			conn.Release()
			for name, door := range rowDoors(e.env, e.table(e.with(func(g *sqlguard.Guard) { g.DB = pool }))) {
				t.Run(name+" on a pool", func(t *testing.T) { throughRow(t, e.env, door) })
			}
			require.Equal(t, int64(1), w.dials.Load(), "no refusal costs a connection")
		})
	}
}

func TestStepsOfATable(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	e.claimed(33)
	var h hooktest.Record
	ctx, zombie := h.Listen(e.ctx(33)), h.Listen(e.ctx(32))
	protected := *e.accounts
	protected.Protected = true
	for name, c := range map[string]struct {
		call  func() error
		is    error
		steps []string
	}{
		"Update":              {func() error { return e.accounts.Update(ctx, 42, setWriter) }, nil, []string{"begin", "applied"}},
		"Update, refused":     {func() error { return e.accounts.Update(zombie, 42, setWriter) }, guard.ErrStale, []string{"begin", "undone"}},
		"Update, protected":   {func() error { return protected.Update(ctx, 42, setWriter) }, nil, []string{"begin", "applied"}},
		"Upsert":              {func() error { return e.accounts.Upsert(ctx, 42, setWriter) }, nil, []string{"begin", "applied"}},
		"Upsert, refused":     {func() error { return e.accounts.Upsert(zombie, 42, setWriter) }, guard.ErrStale, []string{"begin", "undone"}},
		"Claim":               {func() error { return e.accounts.Claim(ctx, tokenOf(33)) }, nil, []string{"begin", "undone"}},
		"Claim, refused":      {func() error { return e.accounts.Claim(ctx, tokenOf(32)) }, guard.ErrStale, []string{"begin", "undone"}},
		"Claim, report-only":  {func() error { return e.accounts.Claim(failpoint.Unguarded(ctx), tokenOf(32)) }, nil, []string{"begin", "undone"}},
		"Update, report-only": {func() error { return e.accounts.Update(failpoint.Unguarded(zombie), 42, setWriter) }, nil, []string{"begin", "applied"}},
		"Update, inside a transaction": {func() error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
				return e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx })).Update(ctx, 42, setWriter)
			})
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			steps := during(&h, func() { require.ErrorIs(t, c.call(), c.is) })
			require.Equal(t, c.steps, steps)
			for _, key := range h.Keys {
				require.Equal(t, h.Keys[0], key, "one transaction")
			}
		})
	}
}

// within returns the table in a transaction, which is rolled back at the end.
func (e rowsEnv) within(level pgx.TxIsoLevel, change ...func(*sqlguard.Guard)) (*rowguard.Table, pgx.Tx) {
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
		accounts, tx := e.within(pgx.ReadCommitted, func(g *sqlguard.Guard) { g.IdleTimeout = time.Minute })
		require.NoError(t, accounts.Update(e.ctx(33), 42, setWriter))
		require.Empty(t, e.writer(), "not committed yet")
		var bound, admitted string
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('fencepost.admitted')").Scan(&bound, &admitted))
		require.Equal(t, "1min", bound)
		require.Contains(t, admitted, "/account/42\n")
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, "33 h33", e.row())
	})
	t.Run("is aborted if the marks table refuses", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.claimed(34)
		accounts, tx := e.within(pgx.ReadCommitted)
		require.ErrorIs(t, accounts.Update(e.ctx(33), 42, setWriter), guard.ErrStale)
		_, err := tx.Exec(t.Context(), "SELECT 1")
		require.ErrorContains(t, err, "25P02")
	})
	t.Run("stays usable if only the row refuses, which has written nothing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		require.NoError(t, e.accounts.Update(e.ctx(34), 42, setWriter))
		accounts, tx := e.within(pgx.ReadCommitted)
		require.ErrorIs(t, accounts.Update(e.ctx(33), 42, rowguard.Set{"writer": "stale"}), guard.ErrStale)
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, "x", e.writer())
	})
	// hazard G7
	t.Run("is retryable if its snapshot is older than the row", func(t *testing.T) {
		t.Parallel()
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			e := newRows(t)
			e.claimed(33)
			accounts, tx := e.within(level)
			_, err := tx.Exec(t.Context(), "SELECT 1")
			require.NoError(t, err)
			require.NoError(t, e.accounts.Update(e.ctx(33), 42, setWriter)) // a peer
			require.Equal(t, []error{guard.ErrRetryable}, outcomes(accounts.Update(e.ctx(33), 42, setWriter)))
			accounts, _ = e.within(level)
			require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(accounts.Update(e.ctx(34), 42, setWriter)))
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
	waits := async(func() error { return late.Update(ctx, 42, setWriter) })
	naive := async(func() error { // it treats 0 rows as stale, and every other error as a failure
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
	require.ErrorIs(t, late.Update(ctx, 42, setWriter), guard.ErrStale, "the next run returns that")
}

// hazard G8
func TestAPausedTransactionOfATableIsEvicted(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	e.claimed(33)
	accounts, tx := e.within(pgx.ReadCommitted, func(g *sqlguard.Guard) { g.IdleTimeout = -1 })
	require.NoError(t, accounts.Update(e.ctx(33), 42, setWriter)) // and here its holder is paused
	newer := e.table(e.with(func(g *sqlguard.Guard) { g.IdleTimeout = short }))
	require.NoError(t, newer.Claim(e.bounded(), tokenOf(34)))
	require.Error(t, tx.Commit(t.Context()))
	require.Equal(t, "34 h34", e.row())
	require.Empty(t, e.writer())

	twin := e.open(pgx.TxOptions{}) // its hand-written statement was never admitted
	require.NoError(t, e.write(t.Context(), "A")(twin))
	ctx := e.bounded()
	waits := async(func() error { return newer.Claim(ctx, tokenOf(35)) })
	e.stillWaits(waits) // behind the twin
	require.NoError(t, twin.Rollback(t.Context()))
	require.NoError(t, await(t, waits))
}

// A row that was inserted without a Table, or whose columns were just added, carries no
// mark. The mark in the marks table counts for it.
//
// hazard G22
func TestARowWithoutAMark(t *testing.T) {
	t.Parallel()
	for name, none := range map[string]string{"0": "0", "NULL": "NULL"} {
		t.Run("of "+name+" is judged by the marks table", func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			e.exec("ALTER TABLE accounts ALTER last_token DROP NOT NULL")
			e.exec("DELETE FROM accounts WHERE id = 42")
			require.NoError(t, e.accounts.Claim(e.bounded(), tokenOf(34)))
			require.NoError(t, e.guard.Update(e.ctx(34), resource, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), e.sql("INSERT INTO accounts (id, balance, last_token) VALUES (42, 100, "+none+")"))
				return err
			}))

			require.Equal(t, []error{guard.ErrStale}, outcomes(e.accounts.Update(e.ctx(33), 42, setWriter)))
			own, err := e.accounts.Fence(e.ctx(33), 42)
			require.NoError(t, err)
			f := own.Clauses("a")
			tag, err := e.pool.Exec(t.Context(), e.sql("UPDATE accounts AS a SET writer = 'stale', "+f.Set+" WHERE "+f.Where), f.Args...)
			require.NoError(t, err)
			require.Zero(t, tag.RowsAffected())
			require.Equal(t, []error{guard.ErrStale}, outcomes(e.accounts.Explain(e.ctx(33), 42)))
			require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(e.accounts.Explain(e.ctx(34), 42)))
			require.Empty(t, e.writer())

			naive := e.sql("UPDATE accounts SET writer = 'stale' WHERE id = 42 AND (coalesce(last_token, 0) < 33 OR last_token = 33 AND last_holder = 'h33')")
			tag, err = e.pool.Exec(t.Context(), naive)
			require.NoError(t, err)
			require.Equal(t, int64(1), tag.RowsAffected(), "the twin, for which no mark is the least, must let the stale in")

			require.NoError(t, e.accounts.Update(e.ctx(34), 42, rowguard.Set{"writer": "34"}))
			require.Equal(t, "34 h34", e.row())
			require.Equal(t, "34", e.writer())
		})
	}
	t.Run("is claimed by its first update if it was not claimed", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("UPDATE accounts SET last_token = 0, last_holder = ''")
		require.NoError(t, e.accounts.Update(e.ctx(33), 42, setWriter))
		require.Equal(t, "33 h33", e.row())
		require.Equal(t, "33 h33", e.mark(resource))
	})
}
