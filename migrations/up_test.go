package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// applied returns how many versions a complete database has, including goose's 0.
func applied(t *testing.T, set migrations.Set) int {
	t.Helper()
	files, err := set.FS()
	require.NoError(t, err)
	names, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	return len(names) + 1
}

func TestUp(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"makes the schema fencepost":                         nil,
		"works where SERIALIZABLE is the default":            {"default_transaction_isolation=serializable"},
		"works where the search_path is empty":               {"search_path="},
		"works where backslashes escape in string constants": {"standard_conforming_strings=off", "backslash_quote=off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, settings...)
			db.SetMaxOpenConns(1) // Up must not wait for a second connection
			for range 3 {
				require.NoError(t, migrations.Set{}.Up(t.Context(), db))
			}
			require.Equal(t, applied(t, migrations.Set{}), one[int](t, db, "SELECT count(*) FROM fencepost.fencepost_migrations"))
			must(t, db, "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT fencepost.admit('account/42', 5, 'a'); COMMIT")
			require.Equal(t, int64(5), one[int64](t, db, "SELECT number FROM fencepost.marks"))
		})
	}
}

func TestUpKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.NoError(t, f.admit(t.Context(), f, "account/42", 5, "a"))
	require.NoError(t, migrations.Set{Schema: f.schema}.Up(t.Context(), sqlDB(t, f)))
	number, holder := f.mark(t, "account/42")
	require.Equal(t, int64(5), number)
	require.Equal(t, "a", holder)
}

// afterRefusal is a tracer that calls release after a wait for the lock has ended.
type afterRefusal struct{ release func() }

func (afterRefusal) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (a afterRefusal) TraceQueryEnd(_ context.Context, _ *pgx.Conn, end pgx.TraceQueryEndData) {
	if code(end.Err) == "55P03" {
		a.release()
	}
}

// 1. A wait ends.
// 2. The holder of the lock releases it.
// 3. The query for the holder finds none.
func TestTheLockIsReleasedAfterTheWait(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	holder := f.begin(t, "")
	require.NoError(t, f.exec(t.Context(), holder, "SELECT pg_advisory_xact_lock(hashtextextended($1, 9651))", f.schema))
	config := f.Config().ConnConfig
	config.Tracer = afterRefusal{func() { assert.NoError(t, holder.Rollback(t.Context())) }}
	db := opened(t, stdlib.OpenDB(*config))
	var locked *migrations.LockedError
	require.ErrorAs(t, migrations.Set{Schema: f.schema, WaitTimeout: time.Millisecond}.Up(t.Context(), db), &locked)
	require.Equal(t, "a session that has released it since", locked.Holder)
	require.Equal(t, "55P03", code(locked))
}

// The role may not create schemas either.
func TestUpOfARoleWithOneConnection(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	role := f.schema + "_one"
	require.NoError(t, f.exec(t.Context(), f, "CREATE ROLE "+role+" LOGIN PASSWORD 'one' CONNECTION LIMIT 1"))
	f.atEnd(t, "DROP ROLE "+role)
	f.atEnd(t, "DROP OWNED BY "+role+" CASCADE")
	require.NoError(t, f.exec(t.Context(), f, "CREATE SCHEMA "+role+" AUTHORIZATION "+role))
	config := f.Config().ConnConfig
	config.User, config.Password = role, "one"
	require.NoError(t, migrations.Set{Schema: role}.Up(t.Context(), opened(t, stdlib.OpenDB(*config))))
}

// hazard P8
func TestUpThroughABusyPooler(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	config, err := pgx.ParseConfig(testenv.OwnPgBouncer(t, "", "default_pool_size = 1") + "&default_query_exec_mode=exec")
	require.NoError(t, err)
	other := opened(t, stdlib.OpenDB(*config))
	connects := 0
	db := opened(t, stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(context.Context, *pgx.ConnConfig) error {
		if connects++; connects == 2 { // the first has been answered
			tx, err := other.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), "SELECT")
			require.NoError(t, err)
		}
		return nil
	})))
	err = migrations.Set{Schema: f.schema}.Up(t.Context(), db)
	require.ErrorContains(t, err, "migrations: postgres: the sessions of a pooler are all in use")
}

func TestUpWaitsAsLongAsItMay(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	holder := f.begin(t, "")
	require.NoError(t, f.exec(t.Context(), holder, "SELECT pg_advisory_xact_lock(hashtextextended($1, 9651))", f.schema))
	db, set := sqlDB(t, f), migrations.Set{Schema: f.schema}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := pgtest.Later(t, func() error { return set.Up(ctx, db) })
	pgtest.Await(t, func() bool {
		return get[bool](t, f, f, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::int = ANY(pg_blocking_pids(pid)))", holder.Conn().PgConn().PID())
	})
	cancel()
	err := wait()
	require.ErrorIs(t, err, context.Canceled)
	by := fmt.Sprintf("migrations: postgres: another up or down has the lock: process %d, application_name ", holder.Conn().PgConn().PID())
	require.ErrorContains(t, err, by)

	db.SetMaxOpenConns(1)
	for _, work := range []func(migrations.Set, context.Context, *sql.DB) error{migrations.Set.Up, migrations.Set.Down} {
		err = work(migrations.Set{Schema: f.schema, WaitTimeout: time.Nanosecond}, t.Context(), db)
		require.ErrorContains(t, err, by)
		require.Equal(t, "55P03", code(err))
	}

	require.NoError(t, holder.Rollback(t.Context()))
	require.NoError(t, set.Up(t.Context(), db), "the one who gave up left a lock behind")
}

func TestUpWithoutRights(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	db := sqlDB(t, f, f.named("SET ROLE fence.role"))
	for set, text := range map[migrations.Set]string{
		{Schema: f.schema + "_none"}:  `migrations: postgres: schema "` + f.schema + `_none" does not exist, and this role may not create it: `,
		{Schema: f.schema + "_empty"}: `migrations: postgres: table "` + f.schema + `_empty".fencepost_migrations: `,
		{Schema: f.schema}:            "migrations: postgres: ",
	} {
		if set.Schema == f.schema+"_empty" {
			require.NoError(t, f.exec(t.Context(), f, "CREATE SCHEMA "+set.Schema+"; GRANT USAGE ON SCHEMA "+set.Schema+f.named(" TO fence.role")))
			f.atEnd(t, "DROP SCHEMA "+set.Schema)
		}
		for _, work := range []func(migrations.Set, context.Context, *sql.DB) error{migrations.Set.Up, migrations.Set.Down} {
			err := work(set, t.Context(), db)
			if err == nil { // Down of an empty database
				continue
			}
			require.ErrorContains(t, err, text)
			require.Equal(t, "42501", code(err))
		}
		require.Error(t, set.Up(t.Context(), db))
	}
	require.NoError(t, migrations.Set{Schema: f.schema}.Check(t.Context(), db))
}

func TestUpRefuses(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]migrations.Set{
		"migrations: unknown dialect Dialect(7)":                  {Dialect: 7},
		"migrations: SQLite has no schemas, Schema must be empty": {Dialect: migrations.SQLite, Schema: "x"},
		"migrations: WaitTimeout -1s is negative":                 {WaitTimeout: -time.Second},
		`migrations: schema "a/b" must not contain a slash`:       {Schema: "a/b"},
	} {
		require.EqualError(t, set.Up(t.Context(), nil), name)
		require.EqualError(t, set.Down(t.Context(), nil), name)
		require.EqualError(t, set.Check(t.Context(), nil), name)
		_, err := set.Status(t.Context(), nil)
		require.EqualError(t, err, name)
		_, err = set.FS()
		require.EqualError(t, err, name)
		_, err = set.SQL()
		require.EqualError(t, err, name)
	}
}

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	t.Run("on PostgreSQL", func(t *testing.T) {
		t.Parallel()
		db := newDatabase(t)
		db.SetMaxOpenConns(1) // neither may wait for a second connection
		ctx := t.Context()
		require.NoError(t, migrations.Set{}.Down(ctx, db), "there is nothing to take back")
		require.Zero(t, one[int](t, db, "SELECT count(*) FROM pg_namespace WHERE nspname = 'fencepost'"))

		must(t, db, "CREATE SCHEMA fencepost")
		before := things(t, db)
		require.NoError(t, migrations.Set{}.Up(ctx, db))
		complete := things(t, db)
		require.Contains(t, complete, "marks")
		require.NoError(t, migrations.Set{}.Check(ctx, db))
		role := newRole(t, db)
		must(t, db, "SELECT fencepost.admit('account/42', 5, 'a'); GRANT USAGE ON SCHEMA fencepost TO "+role)

		for range 2 {
			require.NoError(t, migrations.Set{}.Down(ctx, db))
			require.Equal(t, before, things(t, db))
		}
		require.NoError(t, migrations.Set{}.Up(ctx, db))
		require.Equal(t, complete, things(t, db))
		require.NoError(t, migrations.Set{}.Check(ctx, db))
		require.True(t, one[bool](t, db, "SELECT has_schema_privilege($1, 'fencepost', 'USAGE')", role), "rights on the schema stay")
		require.Zero(t, one[int](t, db, "SELECT count(*) FROM fencepost.marks"), "the marks do not")
	})
	for name, c := range map[string]struct{ all, locked string }{
		"on SQLite": {"SELECT coalesce(group_concat(sql, '; '), '') FROM sqlite_master WHERE name NOT LIKE 'fencepost_migrations%' AND name NOT LIKE 'sqlite%'",
			"SELECT false"},
		"on MariaDB": {`SELECT coalesce(group_concat(concat_ws(' ', t.engine, c.table_name, column_name, column_type, is_nullable, column_key) ORDER BY c.table_name, ordinal_position), '')
			   FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
			  WHERE table_schema = DATABASE() AND c.table_name <> 'fencepost_migrations'`,
			"SELECT NOT IS_FREE_LOCK(CONCAT('fencepost/', LEFT(SHA2(DATABASE(), 256), 40)))"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, set, db := t.Context(), dialects[name].set, dialects[name].open(t)
			db.SetMaxOpenConns(1)
			require.NoError(t, set.Down(ctx, db), "there is nothing to take back")
			status, err := set.Status(ctx, db)
			require.NoError(t, err)
			require.True(t, status[0].AppliedAt.IsZero())

			for range 3 {
				require.NoError(t, set.Up(ctx, db))
			}
			require.Equal(t, applied(t, set), one[int](t, db, "SELECT count(*) FROM fencepost_migrations"))
			require.Zero(t, one[int](t, db, "SELECT count(*) FROM fencepost_marks"))
			require.Equal(t, 1, one[int](t, db, "SELECT count(*) FROM fencepost_floor WHERE number = 0"))
			require.False(t, one[bool](t, db, c.locked))
			complete := one[string](t, db, c.all)
			require.Contains(t, complete, "fencepost_marks")
			for range 2 {
				require.NoError(t, set.Down(ctx, db))
				require.Empty(t, one[string](t, db, c.all))
			}
			require.NoError(t, set.Up(ctx, db))
			require.Equal(t, complete, one[string](t, db, c.all))
			require.NoError(t, set.Check(ctx, db))
		})
	}
}

// newRole creates a role that may log in, and that exists as long as the test's database.
func newRole(t *testing.T, db *sql.DB) string {
	t.Helper()
	name := one[string](t, db, "SELECT 'fencepost_test_' || replace(gen_random_uuid()::text, '-', '')")
	must(t, db, "CREATE ROLE "+name+" LOGIN PASSWORD 'role'")
	t.Cleanup(func() {
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP OWNED BY "+name+"; DROP ROLE "+name)
		require.NoError(t, err)
	})
	return name
}

// things describes all objects that a user can create in a database, in any schema,
// except goose's table.
func things(t *testing.T, db *sql.DB) string {
	t.Helper()
	return one[string](t, db, `SELECT coalesce(string_agg(line, E'\n' ORDER BY line), '') FROM (
		SELECT i.type || ' ' || i.identity || ' ' || coalesce(pg_get_functiondef(p.oid), '') || ' ' || coalesce(p.proacl::text, '')
		  FROM (SELECT classid, objid, objsubid FROM pg_depend UNION SELECT refclassid, refobjid, refobjsubid FROM pg_depend) d
		 CROSS JOIN pg_identify_object(d.classid, d.objid, d.objsubid) i
		  LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid AND p.prokind = 'f'
		 WHERE d.objid >= 16384 AND i.identity NOT LIKE '%fencepost_migrations%' AND i.identity NOT LIKE 'pg_toast%'
		   AND i.type NOT IN ('toast table', 'schema', 'type', 'composite type')) x (line)`)
}

// A file that replaces functions restores the previous ones.
func TestEachFileIsTakenBack(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	files, err := migrations.Set{}.FS()
	require.NoError(t, err)
	must(t, db, "CREATE SCHEMA fencepost")
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files)
	require.NoError(t, err)
	functions := func() string {
		return one[string](t, db, "SELECT coalesce(string_agg(pg_get_functiondef(oid) || coalesce(proacl::text, ''), ';' ORDER BY oid::regprocedure::text), '') "+
			"FROM pg_proc WHERE pronamespace = 'fencepost'::regnamespace")
	}
	for _, source := range provider.ListSources() {
		before := functions()
		_, err := provider.UpByOne(t.Context())
		require.NoError(t, err)
		_, err = provider.Down(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, functions(), source.Path)
		_, err = provider.UpByOne(t.Context())
		require.NoError(t, err)
	}
}

// An interrupted Up or Down leaves whole migrations, and no lock.
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
			wait := pgtest.Later(t, func() error { return c.work(set, ctx, db) })
			// An earlier migration may wait too, for a lock of another test: only the holder counts.
			pgtest.Await(t, func() bool {
				return get[bool](t, f, f, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND $2::int = ANY(pg_blocking_pids(pid)))",
					f.schema, holder.Conn().PgConn().PID())
			})
			err = migrations.Set{Schema: f.schema, WaitTimeout: time.Millisecond}.Up(t.Context(), sqlDB(t, f))
			require.ErrorContains(t, err, fmt.Sprintf(`process %d, application_name "%s", role `, get[int](t, f, f,
				"SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'", f.schema), f.schema))
			require.Regexp(t, `, connected since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, active since `, err.Error())
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

// Down cannot revert a function that a view outside the set uses. The marks exist until
// everything else is dropped.
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

// Concurrent Ups and Downs run one after another.
func TestUpsBesideDowns(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	db, set := sqlDB(t, f), migrations.Set{Schema: f.schema}
	complete := catalog(t, f)
	holder := f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.exec(t.Context(), holder, "SELECT pg_advisory_xact_lock(hashtextextended($1, 9651))", f.schema))
	var waits []func() error
	for i := range 6 {
		work := migrations.Set.Up
		if i%2 == 0 {
			work = migrations.Set.Down
		}
		waits = append(waits, pgtest.Later(t, func() error { return work(set, t.Context(), db) }))
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
