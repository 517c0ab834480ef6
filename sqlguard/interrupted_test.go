package sqlguard_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// A session that is ended while its COMMIT is on the way to the disk commits,
// and answers COMMIT and FATAL. commit_delay makes that moment long, and the
// log of the duration is where the server notices that it is to end.
func TestEndedInTheMiddleOfItsCommit(t *testing.T) {
	t.Parallel()
	e := spareEnv(t)
	e.admitted(33)
	config := e.pool.Config()
	set := config.ConnConfig.RuntimeParams
	set["log_min_duration_statement"], set["commit_delay"], set["commit_siblings"] = "0", "100000", "0"
	slow, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(slow.Close)
	guarded := &sqlguard.Guard{DB: slow}
	e.await("an end behind the commit, and before its answer", func() bool {
		ctx, process := e.ctx(33), make(chan uint32, 1)
		e.exec("UPDATE accounts SET writer = ''")
		late := async(func() error {
			return guarded.Update(ctx, resource, func(tx pgx.Tx) error {
				process <- tx.Conn().PgConn().PID()
				return e.write(ctx, "A")(tx)
			})
		})
		pid := <-process
		e.await("the commit", func() bool {
			return len(late) > 0 || query[bool](e, "SELECT query = 'commit' AND state = 'active' FROM pg_stat_activity WHERE pid = $1", pid)
		})
		time.Sleep(10 * time.Millisecond) // the server is past its last look, and flushes
		e.exec("SELECT pg_terminate_backend($1)", pid)
		err, writer := await(t, late), e.writer()
		if err == nil {
			require.Equal(t, "A", writer)
			return false // it was too late to end it: once more
		}
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err))
		return writer == "A"
	})
}

// spareEnv is newEnv on the spare server, in the default schema.
func spareEnv(t *testing.T) *env {
	t.Helper()
	spare := testenv.SparePostgres(t)
	testenv.Migrate(t, spare.URL())
	pool, err := pgxpool.New(t.Context(), spare.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	e := &env{t: t, pool: pool, schema: "fencepost", guard: &sqlguard.Guard{DB: pool}}
	e.exec("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, writer text NOT NULL DEFAULT '')")
	e.exec("INSERT INTO accounts (id, balance) VALUES (42, 100)")
	return e
}
