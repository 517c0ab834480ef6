package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

// Whoever is interrupted in the middle leaves whole migrations, and no lock.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trigger string
		work    func(migrations.Set, context.Context, *sql.DB) error
		left    int
	}{
		"Up":   {"BEFORE INSERT ON fence.fencepost_migrations FOR EACH ROW WHEN (new.version_id = 6)", migrations.Set.Up, 5},
		"Down": {"BEFORE DELETE ON fence.fencepost_migrations FOR EACH ROW WHEN (old.version_id = 6)", migrations.Set.Down, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			set := migrations.Set{Schema: f.schema}
			complete := catalog(t, f)
			conn := f.conn(t)
			db := sqlDB(t, f, "SET application_name = '"+f.schema+"'")
			if name == "Up" {
				require.NoError(t, set.Down(t.Context(), db))
			}
			// The sixth migration waits for the test.
			require.NoError(t, f.exec(t.Context(), f, `CREATE FUNCTION fence.wait() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN PERFORM pg_advisory_xact_lock(hashtext(TG_TABLE_SCHEMA)); RETURN coalesce(new, old); END $$;
				CREATE TRIGGER wait `+c.trigger+" EXECUTE FUNCTION fence.wait()"))
			holder, err := conn.Begin(t.Context())
			require.NoError(t, err)
			require.NoError(t, f.exec(t.Context(), holder, "SELECT pg_advisory_xact_lock(hashtext($1))", f.schema))

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wait := later(t, func() error { return c.work(set, ctx, db) })
			require.Eventually(t, func() bool {
				return get[bool](t, f, f, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock')", f.schema)
			}, patience, 5*time.Millisecond, "nobody waits")
			cancel()
			err = wait()
			require.True(t, errors.Is(err, context.Canceled) || code(err) == "57014", "%v", err)
			require.NoError(t, holder.Rollback(t.Context()))

			status, err := set.Status(t.Context(), db)
			require.NoError(t, err)
			for _, m := range status {
				require.Equal(t, m.Version > int64(c.left), m.AppliedAt.IsZero(), "%d", m.Version)
			}
			require.ErrorContains(t, set.Check(t.Context(), db), fmt.Sprintf("is at version %d, ", c.left))
			require.NoError(t, f.exec(t.Context(), f, "DROP FUNCTION fence.wait CASCADE"))
			require.NoError(t, set.Up(t.Context(), db))
			require.Equal(t, complete, catalog(t, f))
		})
	}
}

// Down cannot take back what somebody's own view still uses; the marks are
// there until all else has gone.
func TestDownThatCannotGoOn(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db, set := sqlDB(t, f), migrations.Set{Schema: f.schema}
	complete := catalog(t, f)
	require.NoError(t, f.admit(t.Context(), f, "account/42", 5, "a"))
	require.NoError(t, f.exec(t.Context(), f, "CREATE VIEW fence.mine AS SELECT (fence.acquire('x', 'y', '1 s')).*"))
	require.Equal(t, "2BP01", code(set.Down(t.Context(), db)), "other objects depend on it")
	number, _ := f.mark(t, "account/42")
	require.EqualValues(t, 5, number)
	require.NoError(t, f.exec(t.Context(), f, "DROP VIEW fence.mine"))
	require.NoError(t, set.Up(t.Context(), db))
	require.Equal(t, complete, catalog(t, f))
	require.NoError(t, set.Check(t.Context(), db))
}

// Nobody could be admitted any more, and every write of the table be refused.
func TestDownWhileATableIsProtected(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db, set := sqlDB(t, f), migrations.Set{Schema: f.schema}
	require.NoError(t, f.exec(t.Context(), f, "CREATE TABLE fence.accounts (id bigint)"))
	require.NoError(t, f.exec(t.Context(), f, "SELECT fence.protect($1::text::regclass, $$'account/' || id$$)", f.sql("fence.accounts")))
	require.ErrorContains(t, set.Down(t.Context(), db), "migrations: postgres: tables are still protected: "+f.schema+".accounts")
	require.NoError(t, set.Up(t.Context(), db))
	require.NoError(t, set.Check(t.Context(), db))
	require.NoError(t, f.exec(t.Context(), f, "SELECT fence.unprotect($1::text::regclass)", f.sql("fence.accounts")))
	require.NoError(t, set.Down(t.Context(), db))
}

// Ups and Downs that meet come one after another.
func TestUpsBesideDowns(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db, set := sqlDB(t, f), migrations.Set{Schema: f.schema}
	complete := catalog(t, f)
	holder := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.exec(t.Context(), holder, "SELECT pg_advisory_xact_lock(hashtextextended($1, 9651))", f.schema))
	var waits []func() error
	for i := range 10 {
		work := migrations.Set.Up
		if i%2 == 0 {
			work = migrations.Set.Down
		}
		waits = append(waits, later(t, func() error { return work(set, t.Context(), db) }))
	}
	require.NoError(t, holder.Rollback(t.Context()))
	for _, wait := range waits {
		require.NoError(t, wait())
	}
	status, err := set.Status(t.Context(), db)
	require.NoError(t, err)
	for _, m := range status {
		require.Equal(t, status[0].AppliedAt.IsZero(), m.AppliedAt.IsZero(), "all or none")
	}
	require.NoError(t, set.Up(t.Context(), db))
	require.Equal(t, complete, catalog(t, f))
}
