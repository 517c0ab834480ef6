package stdsql_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// ends calls f with 33's context. So many times, when its session waits for the standby, it
// ends that session. Before the last time the context ends, so that no further attempt is
// made. It returns the error of f.
func (r *replicated) ends(t *testing.T, times int, f func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithCancel(holding(t, 33, "a"))
	defer cancel()
	call := make(chan error, 1)
	go func() { call <- f(ctx) }()
	for i := range times {
		pid := 0 // a session that waits is missing for a moment whenever a signal wakes it
		r.eventually(t, "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", func(waiting int) bool {
			pid = waiting
			return pid != 0 || len(call) > 0
		})
		if pid == 0 {
			return <-call // it did not wait
		}
		if i == times-1 {
			cancel()
		}
		// The end of the context may end the session first.
		require.True(t, one[bool](t, r, fmt.Sprintf("SELECT pg_terminate_backend(%d, 60000) OR NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %[1]d)", pid)))
	}
	return <-call
}

// hazard P9
func TestPostgresAWriteThatNoStandbyHasIsNotReportedAsApplied(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.claim(t, tok(33, "a"))
	r.primary.CaughtUp()
	r.standby.CutOff()
	run(t, r, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	run(t, r, "SELECT pg_reload_conf()")
	// The checkpointer, which makes commits wait, may read the setting after the sessions.
	require.NoError(t, r.ends(t, 1, func(context.Context) error {
		for {
			if _, err := r.ExecContext(t.Context(), "SELECT pg_logical_emit_message(true, '', '')"); err != nil {
				return nil // ended while it waited
			}
		}
	}))

	for _, own := range []string{"on", "local"} {
		before := balance(t, r)
		g := r.over(connect(t, "pgx", r.setting(t, "synchronous_commit", own)))
		err := r.ends(t, 2, func(ctx context.Context) error {
			return g.Update(ctx, account, func(tx *sql.Tx) error { return durably(ctx, tx) })
		})
		require.ErrorIs(t, err, guard.ErrUnknown)
		require.ErrorContains(t, err, "not known whether the standbys have it")
		require.Equal(t, before+10, balance(t, r), "the twin sees a write that was applied")

		once := func(ctx context.Context) error {
			_, err := g.Once(ctx, account, guard.Unit{Key: own}, func(tx *sql.Tx) ([]byte, error) { return []byte("first"), durably(ctx, tx) })
			return err
		}
		require.ErrorIs(t, r.ends(t, 2, once), guard.ErrUnknown)
		require.Equal(t, before+20, balance(t, r))
		require.ErrorIs(t, r.ends(t, 1, once), guard.ErrUnknown, "a repeat")
		require.Equal(t, before+20, balance(t, r), "the unit was found")
	}

	require.NoError(t, r.ends(t, 1, func(context.Context) error {
		_, err := r.ExecContext(t.Context(), "SELECT fencepost.admit('"+account+"', 34, 'b')")
		require.Error(t, err)
		return nil
	}))
	err := r.ends(t, 1, func(ctx context.Context) error {
		_, err := r.guard().Once(ctx, account, guard.Unit{Key: "on"}, mustNotRun)
		return err
	})
	require.ErrorContains(t, err, "whether unit on of account/42 was applied before its token became stale")
	require.False(t, guard.IsRefusal(err))

	r.primary.Kill()
	r.standby.Promote()
	require.Equal(t, 100, balance(t, r.replay), "the promoted standby has none of the four writes")
}

// durably adds 10 to the balance, whatever the session's synchronous_commit.
func durably(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
		return err
	}
	return add(ctx, 10)(tx)
}

// A COMMIT during which the guard cancels the context of BeginTx may be reported as a
// success, because the driver has cancelled the wait for the standby.
func TestStressPostgresACommitThatIsInterruptedIsSettled(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	ctx := holding(t, 33, "a")
	interrupted := false
	pool := db.hooked(t, &hooks{commit: func(tx openTx) error {
		err := tx.Commit()
		if !interrupted {
			interrupted = true
			<-tx.ctx.Done()
		}
		return err
	}})
	run(t, db, "ALTER TABLE incarnation SET LOGGED") // so that it cannot be settled
	err := db.over(pool).Update(ctx, account, add(ctx, 10))
	require.ErrorIs(t, err, guard.ErrUnknown)
	require.ErrorContains(t, err, "may have cancelled its wait for a standby")
	require.Equal(t, 110, balance(t, db))
}
