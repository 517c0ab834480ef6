package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// hazard P8
func TestEveryDoorBehindAPooler(t *testing.T) {
	t.Parallel()
	inEveryMode(t, pooledModes, func(t *testing.T, mode pgx.QueryExecMode) {
		e, url := newEnv(t), testenv.PgBouncer(t)
		pool := client(t, url, mode, clients)
		g := e.by(pool)
		for name, door := range doors(e, g) {
			t.Run(name, func(t *testing.T) { through(t, e, door) })
		}
		t.Run("Mint", func(t *testing.T) {
			e.exec("DELETE FROM marks")
			tok, err := mintedToken(g.Mint(e.bounded(), resource, "minted"))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%d minted", tok.Number), e.mark(resource))
		})
	})
}

// Twelve clients with mixed tokens share four sessions. torture_test.go describes what is
// checked.
//
// hazard P8
func TestStressTortureBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range pooledModes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			tt := newTorture(t)
			tt.pool = client(t, testenv.PgBouncer(t), mode, clients)
			tt.holds(3, "admitted", "refused", "rolled back")
		})
		t.Run("without the lock it catches what it must in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			tt := newTorture(t)
			tt.pool = client(t, testenv.PgBouncer(t), mode, clients)
			for function, oldnew := range map[string][]string{
				"admit":          {"pg_advisory_xact_lock_shared(", "abs("},
				"admit_slow":     {"pg_advisory_xact_lock_shared(", "abs("},
				"lock_exclusive": {"pg_advisory_xact_lock(", "abs("},
			} {
				tt.mutate(function, oldnew...)
			}
			tt.breaks()
		})
	}
}

// The session's own settings. A guard has to change each of them for a while, and each
// differs from a new session's default.
const ownSettings = "SET idle_in_transaction_session_timeout = '2h'; SET lock_timeout = '50s'; SET synchronous_commit = off"

// Settings and locks of a guard belong to the transaction. Settings of the session would
// be passed to the next client, since a pooler does not reset them.
//
// hazard P8
func TestStressNothingIsLeftInThePoolersSessions(t *testing.T) {
	t.Parallel()
	inEveryMode(t, pooledModes, func(t *testing.T, mode pgx.QueryExecMode) {
		e, url := newEnv(t), testenv.PgBouncer(t)
		before := everySession(t, url, sessions, ownSettings)
		for _, s := range before {
			require.Equal(t, session{PID: s.PID, Idle: "2h", Lock: "50s", Synch: "off"}, s)
		}
		pool := client(t, url, mode, clients)
		g := e.by(pool)
		var group sync.WaitGroup
		for i := range int64(clients) {
			group.Go(func() {
				for _, err := range busy(e, g, i+1) {
					// An older client deletes the row to insert it again, and is
					// stale by then.
					if err != nil && !errors.Is(err, guard.ErrStale) && !errors.Is(err, pgx.ErrNoRows) {
						t.Errorf("client %d: %v", i, err)
					}
				}
			})
		}
		group.Wait()
		require.Equal(t, before, everySession(t, url, sessions, "SELECT 1"))

		// The twin uses settings and locks of the session.
		twin := everySession(t, url, 1, `SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '5s';
			SET fencepost.admitted = 'account/42'; SET synchronous_commit = on; SELECT pg_advisory_lock_shared(9651)`)
		left := everySession(t, url, sessions, "SELECT 1")
		for pid, s := range twin {
			require.Equal(t, session{PID: pid, Idle: "5s", Lock: "5s", Admitted: "account/42", Synch: "on", Locks: 1}, s)
			require.Equal(t, s, left[pid], "the next client finds it")
		}
		everySession(t, url, sessions, "SELECT pg_advisory_unlock_all()") // the lock would outlive the test
	})
}

// busy tries every door, commits some transactions and rolls back others, and returns the
// errors.
func busy(e *env, g *sqlguard.Guard, number int64) (errs []error) {
	ctx := e.ctx(number)
	for _, door := range doors(e, g) {
		errs = append(errs, door(ctx, "x"))
	}
	err := g.Update(ctx, resource, func(tx pgx.Tx) error {
		var s session
		err := tx.QueryRow(ctx, look).Scan(&s.PID, &s.Idle, &s.Lock, &s.Admitted, &s.Synch, &s.Locks)
		if err == nil && (s.Idle != "1h" || s.Admitted == "" || s.Locks != 1) {
			err = errors.New("nothing is set that could be left")
		}
		return errors.Join(err, guard.ErrStale) // rolls back
	})
	_, mint := g.Mint(ctx, "account/43", "h")
	claim := g.Admit(context.WithoutCancel(ctx), token.Token{Resource: "account/44", Number: number, Holder: "h"})
	return append(errs, err, mint, claim)
}

const (
	// clients is how many clients share the pooler's sessions in these tests.
	clients = 12
	// sessions is the number of sessions of testenv.PgBouncer.
	sessions = 4
)

// pooledModes are the modes that a pooler in transaction mode supports: they do not name
// prepared statements.
var pooledModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// client returns a pool of at most size connections to a pooler.
func client(t testing.TB, url string, mode pgx.QueryExecMode, size int32) *pgxpool.Pool {
	t.Helper()
	return pgtest.Pool(t, url, func(c *pgxpool.Config) { c.MaxConns = size; inMode(mode)(c) })
}

// session is the state that a client finds in a session of the pooler.
type session struct {
	PID                         int
	Idle, Lock, Admitted, Synch string
	Locks                       int
}

const look = `SELECT pg_backend_pid(), current_setting('idle_in_transaction_session_timeout'), current_setting('lock_timeout'),
	coalesce(current_setting('fencepost.admitted', true), ''), current_setting('synchronous_commit'),
	(SELECT count(*)::int FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')`

// everySession runs sql in n sessions of the pooler and returns their state after that,
// by process id.
func everySession(t testing.TB, url string, n int, sql string) map[int]session {
	t.Helper()
	found := map[int]session{}
	inEverySession(t, url, n, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err)
		rows, err := conn.Query(ctx, look)
		require.NoError(t, err)
		s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[session])
		require.NoError(t, err)
		found[s.PID] = s
	})
	require.Len(t, found, n)
	return found
}

// inEverySession lets each of n clients begin a transaction, so that each has another
// session, and commits after do.
func inEverySession(t testing.TB, url string, n int, do func(ctx context.Context, conn *pgx.Conn)) {
	t.Helper()
	pool := client(t, url, pgx.QueryExecModeSimpleProtocol, int32(n))
	defer pool.Close()
	for range n {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Commit(t.Context())
		do(t.Context(), tx.Conn())
	}
}
