package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
)

// between runs a function before the second of two round trips.
type between struct {
	net.Conn
	trips int
	do    func()
}

func (b *between) Write(p []byte) (int, error) {
	if b.trips++; b.trips == 2 && b.do != nil {
		b.do()
	}
	return b.Conn.Write(p)
}

// A single statement that is described first takes two round trips. The second needs
// state that the first has left in its session, and another client may use that session
// in between. Table.Update is such a statement. The batches of the other doors need no
// state of an earlier round trip.
//
// hazard P8
func TestStressDescribedStatementsBehindAPooler(t *testing.T) {
	t.Parallel()
	e, url := newRows(t), testenv.PgBouncer(t)
	e.claimed(33)
	set := e.sql("UPDATE accounts SET writer = $1 WHERE id = 42")
	// meddled runs a statement with another client in its session halfway.
	meddled := func(run func(pool *pgxpool.Pool) error) error {
		var line *between
		var meddler pgx.Tx
		pool := pgtest.Pool(t, url, func(c *pgxpool.Config) {
			pgtest.One(c)
			inMode(pgx.QueryExecModeDescribeExec)(c)
			pgtest.Wrap(c, func(conn net.Conn) (net.Conn, error) { line = &between{Conn: conn}; return line, nil })
		})
		require.NoError(t, pool.Ping(t.Context()))
		meddlers := client(t, url, pgx.QueryExecModeExec, 1)
		line.trips, line.do = 0, func() {
			var err error
			meddler, err = meddlers.Begin(t.Context())
			require.NoError(t, err)
		}
		said := run(pool)
		require.NotNil(t, meddler, "no client came in between")
		require.NoError(t, meddler.Rollback(t.Context()))
		return said
	}
	over := func(pool *pgxpool.Pool) *sqlguard.Guard {
		return e.with(func(g *sqlguard.Guard) {
			g.DB, g.DangerouslyTrustEngine = pool, true // the other client enters after the first round trip, which must be the statement's
		})
	}
	for _, alone := range []func(pool *pgxpool.Pool) error{
		func(pool *pgxpool.Pool) error { _, err := pool.Exec(t.Context(), set, "plain"); return err },
		func(pool *pgxpool.Pool) error {
			return rowDoors(e.env, e.table(over(pool)))["Update"](e.ctx(33), "row")
		},
	} {
		err := meddled(alone)
		require.Equal(t, "26000", outcomeCode(err), "%v", err)
		require.Empty(t, outcomes(err))
		require.Empty(t, e.writer())
	}
	for writer, admitted := range map[string]func(pool *pgxpool.Pool) error{
		"On": func(pool *pgxpool.Pool) error { return doors(e.env, over(pool))["On.Exec"](e.ctx(33), "On") },
		"protected": func(pool *pgxpool.Pool) error {
			return rowDoors(e.env, e.table(over(pool)))["Update, protected"](e.ctx(33), "protected")
		},
	} {
		require.NoError(t, meddled(admitted))
		require.Equal(t, writer, e.writer())
	}
}

// pgx's default mode names its prepared statements. The names belong to a session. A
// pooler that does not track them for its clients, as PgBouncer 1.21 does if configured,
// gives a client a session without them.
//
// hazard P8
func TestNamedStatementsBehindAPooler(t *testing.T) {
	t.Parallel()
	for name := range doors(&env{}, &sqlguard.Guard{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, url := newEnv(t), testenv.PgBouncer(t)
			first, second := client(t, url, pgx.QueryExecModeCacheStatement, 1), client(t, url, pgx.QueryExecModeCacheStatement, 1)
			through := func(pool *pgxpool.Pool, writer string) error {
				return doors(e, e.by(pool))[name](e.ctx(33), writer)
			}
			e.admitted(33)
			require.NoError(t, through(first, "first"), "a session for itself")
			refused := func(code string, err error) {
				t.Helper()
				require.Equal(t, code, outcomeCode(err), "%v", err)
				require.Empty(t, outcomes(err), "a plain error: nothing applied")
				require.Equal(t, "first", e.writer())
			}
			refused("42P05", through(second, "second")) // the name exists in the first client's session
			inEverySession(t, url, 1, func(context.Context, *pgx.Conn) {
				refused("26000", through(first, "again")) // that session is in use, and the next one lacks the name
			})
		})
	}
}

// hazard P8
func TestStressManyClientsWithNamedStatementsBehindAPooler(t *testing.T) {
	t.Parallel()
	e, url := newEnv(t), testenv.PgBouncer(t)
	e.exec("CREATE TABLE ledger (op bigint)")
	e.admitted(33)
	g := e.with(func(g *sqlguard.Guard) { g.DB = client(t, url, pgx.QueryExecModeCacheStatement, clients) })
	ctx := e.ctx(33)
	var mu sync.Mutex
	codes, told := map[string]int{}, []int64{}
	var group sync.WaitGroup
	for c := range int64(clients) {
		group.Go(func() {
			for i := range int64(50) {
				op := 1000*c + i
				_, err := g.On(resource).Exec(ctx, e.sql("INSERT INTO ledger VALUES ($1)"), op)
				mu.Lock()
				if codes[outcomeCode(err)]++; err == nil {
					told = append(told, op)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	t.Logf("of %d writes: %v", clients*50, codes)
	require.Positive(t, codes["26000"])
	require.Equal(t, clients*50, codes[""]+codes["26000"]+codes["42P05"])
	require.ElementsMatch(t, told, query[[]int64](e, "SELECT coalesce(array_agg(op), '{}') FROM ledger"), "no other was applied")
}

// hazard P8
func TestStressTableBehindAPooler(t *testing.T) {
	t.Parallel()
	inEveryMode(t, pooledModes, func(t *testing.T, mode pgx.QueryExecMode) {
		e, url := newRows(t), testenv.PgBouncer(t)
		pool := client(t, url, mode, clients)
		accounts := e.table(e.by(pool))
		for name, door := range rowDoors(e.env, accounts) {
			t.Run(name, func(t *testing.T) { throughRow(t, e.env, door) })
		}
		if mode == pgx.QueryExecModeDescribeExec {
			return // not among many clients: see TestStressDescribedStatementsBehindAPooler
		}
		t.Run("twelve clients with mixed tokens", func(t *testing.T) {
			require.Empty(t, rivals(e, accounts.Update))
			plain := func(ctx context.Context, _ any, set rowguard.Set) error {
				_, err := pool.Exec(ctx, e.sql("UPDATE accounts SET writer = $1 WHERE id = 42"), set["writer"])
				return err
			}
			require.NotEmpty(t, rivals(e, plain), "the twin, which asks for no mark")
		})
	})
}

// rivals lets twelve clients write their numbers in no order, and returns the writes
// below a higher one. The rows must match the results that the clients got.
func rivals(e rowsEnv, update func(context.Context, any, rowguard.Set) error) (fallen []string) {
	e.t.Helper()
	e.exec("CREATE TABLE IF NOT EXISTS ledger (n bigserial, number bigint)")
	e.exec("TRUNCATE ledger")
	e.exec("UPDATE accounts SET writer = '', last_token = 0, last_holder = '' WHERE id = 42")
	e.exec(`CREATE OR REPLACE FUNCTION ` + e.schema + `.keep() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN INSERT INTO ledger (number) VALUES (NEW.writer::bigint); RETURN NEW; END'`)
	e.exec("CREATE OR REPLACE TRIGGER keep AFTER UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".keep()")
	defer e.exec("DROP TRIGGER keep ON accounts")
	var mu sync.Mutex
	told := []int64{}
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range 40 {
				number := 1 + rand.Int64N(200)
				err := update(e.ctx(number), int64(42), rowguard.Set{"writer": fmt.Sprint(number)})
				if err != nil && !errors.Is(err, guard.ErrStale) {
					e.t.Errorf("#%d: %v", number, err)
				}
				if mu.Lock(); err == nil {
					told = append(told, number)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	written := query[[]int64](e.env, "SELECT coalesce(array_agg(number ORDER BY n), '{}') FROM ledger")
	require.NotEmpty(e.t, written)
	require.ElementsMatch(e.t, told, written)
	for i, number := range written[1:] {
		if number < written[i] {
			fallen = append(fallen, fmt.Sprintf("#%d after #%d", number, written[i]))
		}
	}
	return fallen
}
