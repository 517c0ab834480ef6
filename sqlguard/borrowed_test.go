package sqlguard_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// borrowed is a migrated schema with the tables of one kind of env, and a pool. One test
// at a time uses it. It is reused because creating a schema, and a session that has its
// functions cached, takes longer than most tests. After a test that changed the schema
// itself, or failed, it is not reused.
type borrowed struct {
	kind   string
	pool   *pgxpool.Pool
	schema string
	made   string // what catalog returns of it as it was made
	life   *lifetime
}

// shelf has the schemas that no test uses, by kind.
var shelf struct {
	sync.Mutex
	idle   map[string][]*borrowed
	failed bool // to drop one of them
}

// borrow returns the env of a schema of that kind until the test ends. If none is idle,
// tables creates its contents. A schema of the kind "" is created for one test.
func borrow(t testing.TB, kind string, tables func(e *env)) *env {
	t.Helper()
	b := take(kind)
	if b == nil {
		b = &borrowed{kind: kind, life: &lifetime{TB: t}}
		b.open()
		e := b.env(t)
		tables(e)
		b.made = b.catalog(t)
	}
	users.Store(t.Name(), b.schema)
	t.Cleanup(func() { b.giveBack(t) })
	return b.env(t)
}

// open creates the schema, and a pool of sessions named after it.
func (b *borrowed) open() {
	t := b.life
	t.Helper()
	pool, schema := testenv.Postgres(t)
	b.schema = schema
	config := pool.Config()
	pool.Reset() // it only drops the schema
	config.ConnConfig.RuntimeParams["application_name"] = schema
	var err error
	b.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(b.pool.Close)
}

// users maps a test's name to the schema that it uses.
var users sync.Map

// sessionName is the application_name of a test's session: the schema that the test or
// its parent uses.
func sessionName(test string) string {
	for {
		if schema, used := users.Load(test); used {
			return schema.(string)
		}
		i := strings.LastIndexByte(test, '/')
		if i < 0 {
			return ""
		}
		test = test[:i]
	}
}

func take(kind string) *borrowed {
	shelf.Lock()
	defer shelf.Unlock()
	idle := shelf.idle[kind]
	if len(idle) == 0 {
		return nil
	}
	shelf.idle[kind] = idle[:len(idle)-1]
	return idle[len(idle)-1]
}

func (b *borrowed) giveBack(t testing.TB) {
	users.Delete(t.Name())
	b.life.TB = t
	e := b.env(t)
	if t.Failed() && b.pool.Stat().AcquiredConns() > 0 {
		return // the pool would wait for them: they go with the process
	}
	e.await("the test's connections", func() bool { return b.pool.Stat().AcquiredConns() == 0 })
	if t.Failed() || b.kind == "" || !b.empty(t) || b.catalog(t) != b.made {
		b.life.end()
		return
	}
	shelf.Lock()
	defer shelf.Unlock()
	if shelf.idle == nil {
		shelf.idle = map[string][]*borrowed{}
	}
	shelf.idle[b.kind] = append(shelf.idle[b.kind], b)
}

// catalog returns the versions of all objects in the schema. A change of a table, column,
// function, trigger, rule, type or collation changes it.
func (b *borrowed) catalog(t testing.TB) (versions string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), ceiling)
	defer cancel()
	const sql = `SELECT md5(string_agg(o || ' ' || x, ',' ORDER BY o, x::text)) FROM (
		SELECT oid, xmin FROM pg_class WHERE relnamespace = $1::oid
		UNION ALL SELECT attrelid, a.xmin FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = $1::oid
		UNION ALL SELECT t.oid, t.xmin FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = $1::oid
		UNION ALL SELECT r.oid, r.xmin FROM pg_rewrite r JOIN pg_class c ON c.oid = ev_class WHERE relnamespace = $1::oid
		UNION ALL SELECT oid, xmin FROM pg_proc WHERE pronamespace = $1::oid
		UNION ALL SELECT oid, xmin FROM pg_type WHERE typnamespace = $1::oid
		UNION ALL SELECT oid, xmin FROM pg_collation WHERE collnamespace = $1::oid) AS all_of_it (o, x)`
	var namespace uint32
	require.NoError(t, b.pool.QueryRow(ctx, "SELECT oid FROM pg_namespace WHERE nspname = $1", b.schema).Scan(&namespace))
	require.NoError(t, b.pool.QueryRow(ctx, sql, namespace).Scan(&versions))
	return versions
}

// empty waits for sessions that may still write to the schema. Then it deletes the rows,
// drops the table ledger, which many tests create, and resets the settings of the
// sessions, of which two stay open.
func (b *borrowed) empty(t testing.TB) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), ceiling)
	defer cancel()
	// A session that was cut off still runs the statements that it has received.
	b.env(t).await("the end of other sessions", func() bool {
		own := map[uint32]bool{}
		for _, conn := range b.pool.AcquireAllIdle(ctx) {
			own[conn.Conn().PgConn().PID()] = true
			conn.Release()
		}
		rows, err := b.pool.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()", b.schema)
		require.NoError(t, err)
		pids, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
		require.NoError(t, err)
		return !slices.ContainsFunc(pids, func(pid uint32) bool { return !own[pid] })
	})
	_, err := b.pool.Exec(ctx, inSchema(b.schema, "SET LOCAL session_replication_role = replica; LOCK TABLE accounts, marks, units IN ACCESS EXCLUSIVE MODE; DELETE FROM marks; DELETE FROM units; DELETE FROM accounts; DROP TABLE IF EXISTS ledger;")+
		"UPDATE "+pgx.Identifier{b.schema, "floor"}.Sanitize()+" SET number = DEFAULT")
	for i, conn := range b.pool.AcquireAllIdle(ctx) {
		_, reset := conn.Exec(ctx, "RESET ALL")
		if i > 1 || reset != nil {
			conn.Conn().Close(ctx)
		}
		conn.Release()
	}
	return err == nil
}

// lifetime is a testing.TB whose cleanups run at end.
type lifetime struct {
	testing.TB
	cleanups []func()
}

func (l *lifetime) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// Context returns a context that does not end with the test.
func (*lifetime) Context() context.Context { return context.Background() }

func (l *lifetime) end() {
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
}

// atExit is the testing.TB for cleanups after all tests.
type atExit struct{ testing.TB }

func (atExit) Helper() {}

func (atExit) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	shelf.failed = true
}

// clearShelf drops the schemas that no test uses. It returns false if one is left.
func clearShelf() bool {
	for _, idle := range shelf.idle {
		for _, b := range idle {
			b.life.TB = atExit{}
			b.life.end()
		}
	}
	return !shelf.failed
}
