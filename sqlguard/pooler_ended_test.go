package sqlguard_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// A session that is ended says so (57P01), and the pooler passes it on.
//
// hazard P8
func TestAnEndedSessionBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range pooledModes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			pool := client(t, testenv.PgBouncer(t), mode, clients)
			g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
			ctx := e.ctx(33)
			end := func(tx pgx.Tx) error { // pgx has a number of the pooler's, not the session's
				var pid int
				err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
				e.exec("SELECT pg_terminate_backend($1)", pid)
				e.await("the end of the session", func() bool {
					return query[int](e, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
				})
				return err
			}
			t.Run("before a statement", func(t *testing.T) {
				err := g.Update(ctx, resource, func(tx pgx.Tx) error { return errors.Join(end(tx), e.write(ctx, "x")(tx)) })
				require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "%v", err)
			})
			t.Run("before the commit, long after it began", func(t *testing.T) {
				err := g.Update(ctx, resource, func(tx pgx.Tx) error {
					defer time.Sleep(200 * time.Millisecond)
					return errors.Join(e.write(ctx, "x")(tx), end(tx))
				})
				require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "%v", err)
			})
			t.Run("in a statement", func(t *testing.T) {
				_, err := g.On(resource).Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)")
				require.Equal(t, []error{guard.ErrEvicted}, outcomes(err), "%v", err)
			})
			t.Run("in the commit, which may have been heard", func(t *testing.T) {
				e.exec("CREATE FUNCTION " + e.schema + ".ends() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(60); END'")
				e.exec("CREATE CONSTRAINT TRIGGER ends AFTER UPDATE ON accounts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".ends()")
				err := g.Update(ctx, resource, e.write(ctx, "x"))
				require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
				e.exec("DROP TRIGGER ends ON accounts")
			})
			require.Empty(t, e.writer(), "applied nothing")
			require.NoError(t, g.Update(ctx, resource, e.write(ctx, "33")), "the pooler has another session")
			require.Equal(t, "33", e.writer())
		})
	}
}
