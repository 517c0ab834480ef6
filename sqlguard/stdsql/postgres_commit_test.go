package stdsql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

func TestPostgresWhatCommitAnswers(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	ctx := holding(t, 33, "a")
	run(t, db, "CREATE TABLE cards (account INTEGER REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)")

	err := db.update(ctx, func(tx *sql.Tx) error {
		run(t, tx, "INSERT INTO cards VALUES (43)")
		return write(ctx, tx, 0)
	})
	require.ErrorContains(t, err, "stdsql: commit: ")
	require.NotErrorIs(t, err, guard.ErrUnknown, "a deferred constraint is an ordinary error")

	err = db.update(ctx, func(tx *sql.Tx) error {
		_, _ = tx.ExecContext(ctx, "SELECT 1 / 0")
		_ = write(ctx, tx, 0)
		return nil
	})
	require.ErrorContains(t, err, "stdsql: commit: ")
	require.NotErrorIs(t, err, guard.ErrUnknown, "fn has ignored an error: rolled back")
	require.Equal(t, 100, balance(t, db))

	broken := errors.New("connection reset by peer")
	for name, c := range map[string]struct {
		commit func(tx openTx) error
		added  int
		want   error
	}{
		"before it was applied": {func(openTx) error { return broken }, 0, guard.ErrRetryable},
		"after it was applied":  {func(tx openTx) error { return errors.Join(tx.Commit(), broken) }, 10, nil},
	} {
		for _, known := range []bool{true, false} {
			pool, before := db.hooked(t, &hooks{commit: c.commit}), balance(t, db)
			pool.SetMaxOpenConns(1)
			want := c.want
			if !known {
				run(t, db, "ALTER TABLE incarnation SET LOGGED")
				want = guard.ErrUnknown
			}
			err := db.over(pool).Update(ctx, account, add(ctx, 10))
			require.ErrorIs(t, err, want, name)
			if want != nil {
				require.ErrorIs(t, err, broken, name)
			}
			require.Equal(t, before+c.added, balance(t, db), name)
			require.NoError(t, pool.PingContext(ctx), "the pool must be fit for use")
			run(t, db, "ALTER TABLE incarnation SET UNLOGGED")
		}
	}
}

func TestPostgresASessionThatEndsWithTheCommitIsSettled(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	// The reply to a COMMIT that takes long does not show whether it was applied. The server
	// is asked.
	run(t, db, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3600); RETURN NULL; END'`)
	run(t, db, "CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()")
	ctx := holding(t, 33, "a")
	pids, result := make(chan int, 1), make(chan error, 1)
	go func() {
		result <- db.update(ctx, func(tx *sql.Tx) error {
			var pid int
			if err := tx.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			pids <- pid
			return write(ctx, tx, 0)
		})
	}()
	sleeping := "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query ILIKE 'commit%' AND pid IN " +
		"(SELECT pid FROM pg_locks WHERE locktype = 'relation' AND relation = 'accounts'::regclass)"
	db.eventually(t, sleeping, func(sessions int) bool { return sessions == 1 })
	_, err := db.ExecContext(ctx, "SELECT pg_terminate_backend($1)", <-pids)
	require.NoError(t, err)
	err = <-result
	require.ErrorIs(t, err, guard.ErrEvicted)
	require.NotErrorIs(t, err, guard.ErrUnknown)
	require.Equal(t, 100, balance(t, db))
}

// hazard P11
func TestPostgresAStatementThatEndsTheTransaction(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	ctx := holding(t, 33, "a")
	const old = 100 * time.Millisecond // a younger transaction is asked only in a unit, after an fn that returns nil
	for _, statement := range []string{"COMMIT AND CHAIN", "ROLLBACK AND CHAIN"} {
		for end, age := range map[error]time.Duration{nil: 0, errors.New("insufficient funds"): old} {
			fn := func(tx *sql.Tx, age time.Duration) error {
				run(t, tx, statement)
				time.Sleep(age)
				return errors.Join(write(ctx, tx, 0), end)
			}
			check := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, guard.ErrUnknown, statement)
				require.Equal(t, end != nil, errors.Is(err, end))
			}
			check(db.update(ctx, func(tx *sql.Tx) error { return fn(tx, old) }))
			_, err := db.guard().Once(ctx, account, guard.Unit{Key: fmt.Sprint(statement, end)}, func(tx *sql.Tx) ([]byte, error) { return []byte{}, fn(tx, age) })
			check(err)
		}
	}
	require.Equal(t, 100, balance(t, db), "what came after it is not committed")
}
