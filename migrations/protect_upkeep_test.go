package migrations_test

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/migrations"
)

// Down would leave triggers that refuse every write.
func TestDownOfProtectedTables(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	f.protect(t, "fence.plain", "'plain/' || id")
	set, db := migrations.Set{Schema: f.schema}, sqlDB(t, f)
	before := catalog(t, f)
	quoted := pgx.Identifier{f.schema}.Sanitize()
	require.EqualError(t, set.Down(t.Context(), db), "migrations: postgres: tables are still protected: "+f.schema+".accounts, "+f.schema+".plain: "+
		"nothing was removed; stop the writers, then SELECT "+quoted+".unprotect(tab) FROM "+quoted+".protected()")
	require.Equal(t, before, catalog(t, f))
	require.NoError(t, set.Check(t.Context(), db))
	require.NoError(t, f.guarded(t, write42, "account/42"), "what is guarded goes on")
	unguarded(t, f.exec(t.Context(), f, write42))

	run(t, f, f, "SELECT fence.unprotect(tab) FROM fence.protected()")
	require.NoError(t, set.Down(t.Context(), db))
	require.Empty(t, f.traces(t))
	run(t, f, f, write42)
	require.NoError(t, set.Up(t.Context(), db))
	f.protect(t, "fence.accounts", account)
	unguarded(t, f.exec(t.Context(), f, write42))
}

// For a goose that the program runs itself, the file refuses.
func TestTheFileRefusesToGoFromProtectedTables(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	script, err := os.ReadFile("postgres/00003_protect.sql")
	require.NoError(t, err)
	_, down, _ := strings.Cut(strings.ReplaceAll(string(script), `"fencepost".`, f.sql("fence.")), "-- +goose Down")
	require.Equal(t, "2BP01", code(f.exec(t.Context(), f, down)))
	unguarded(t, f.exec(t.Context(), f, write42))
}

func TestUnprotectLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	run(t, f, f, "CREATE TABLE fence.accounts (id bigint PRIMARY KEY, writer text)")
	catalogs := func() []string {
		return get[[]string](t, f, f, `SELECT array(SELECT 'pg_proc ' || oid FROM pg_proc WHERE pronamespace = rtrim('fence.', '.')::regnamespace
			UNION ALL SELECT 'pg_class ' || oid FROM pg_class WHERE relnamespace = rtrim('fence.', '.')::regnamespace
			UNION ALL SELECT 'pg_type ' || oid FROM pg_type WHERE typnamespace = rtrim('fence.', '.')::regnamespace
			UNION ALL SELECT 'pg_trigger ' || oid FROM pg_trigger WHERE tgrelid = 'fence.accounts'::regclass
			UNION ALL SELECT concat_ws(' ', 'pg_depend', classid, objid, objsubid, refobjid, deptype) FROM pg_depend WHERE refobjid = 'fence.accounts'::regclass ORDER BY 1)`)
	}
	before := catalogs()
	for _, mode := range []string{"report-only", "enforce"} {
		run(t, f, f, "SELECT fence.protect('fence.accounts', $1, $2)", account, mode)
	}
	require.NotEqual(t, before, catalogs())
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence.accounts')"))
	require.Equal(t, before, catalogs())
	require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM fence.protected()"))
	run(t, f, f, "INSERT INTO fence.accounts VALUES (42, ''); "+write42+"; TRUNCATE fence.accounts")
}

// dumped returns a fence with protected tables of all kinds, and a database into which it
// is restored.
func dumped(t *testing.T) (f fence, into *sql.DB, name string) {
	t.Helper()
	f = newPartitions(t)
	run(t, f, f, `CREATE TABLE fence.accounts (id int PRIMARY KEY, writer text); INSERT INTO fence.accounts VALUES (42, ''), (43, '');
		CREATE TABLE fence."we'ird" (id int); SELECT fence.protect('fence.accounts', $$'account/' || id -- the fence is the name$$), fence.protect('fence."we''ird"', '''x''', 'report-only')`)
	require.NoError(t, f.admit(t.Context(), f, "account/42", 5, "a"))
	into = newDatabase(t)
	return f, into, one[string](t, into, "SELECT current_database()")
}

// restored checks that a database has the rows, the marks and the protected tables of f.
func restored(t *testing.T, f fence, db *sql.DB) {
	t.Helper()
	require.Equal(t, 2, one[int](t, db, f.sql("SELECT count(*) FROM fence.accounts")))
	require.Equal(t, 6, one[int](t, db, f.sql("SELECT count(*) FROM fence.jobs")))
	require.Equal(t, int64(5), one[int64](t, db, f.sql("SELECT number FROM fence.marks WHERE resource = 'account/42'")))
	const protected = "SELECT string_agg(concat_ws(' ', tab, resource, mode, incomplete), '; ' ORDER BY tab::text) FROM fence.protected()"
	require.Equal(t, get[string](t, f, f, protected), one[string](t, db, f.sql(protected)))

	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback()
	exec := func(text string) error {
		_, err := tx.ExecContext(t.Context(), f.sql(text))
		return err
	}
	require.NoError(t, exec("SAVEPOINT a"))
	for _, forgotten := range []string{write42, "UPDATE fence.south SET n = 1", "TRUNCATE fence.west1", "TRUNCATE fence.jobs"} {
		unguarded(t, exec(forgotten))
		require.NoError(t, exec("ROLLBACK TO a"))
	}
	require.Equal(t, "ZF001", code(exec("SELECT fence.admit('account/42', 4, 'late')")))
	require.NoError(t, exec("ROLLBACK TO a; SELECT fence.admit('account/42', 5, 'a')"))
	require.NoError(t, exec(write42))
}

func TestDumpOfProtectedTables(t *testing.T) {
	t.Parallel()
	f, db, name := dumped(t)
	said := f.script(t, "pg_dump -n "+f.schema+" | psql -q -v ON_ERROR_STOP=1 -o /dev/null -d "+name+" || echo failed")
	require.Empty(t, said)
	restored(t, f, db)
}

func TestStressDumpOfDataIntoProtectedTables(t *testing.T) {
	t.Parallel()
	f, db, name := dumped(t)
	psql := " | psql -q -v ON_ERROR_STOP=1 -o /dev/null -d " + name + " || echo failed"
	require.Empty(t, f.script(t, "pg_dump --schema-only -n "+f.schema+psql))

	said := f.script(t, "pg_dump --data-only -n "+f.schema+" | psql -q -v ON_ERROR_STOP=1 -1 -o /dev/null -d "+name+" || echo failed")
	require.Contains(t, said, "fencepost: unguarded INSERT of protected table "+f.schema+".")
	require.Contains(t, said, "failed")
	require.Zero(t, one[int](t, db, f.sql("SELECT count(*) FROM fence.accounts")))

	require.Empty(t, f.script(t, "pg_dump --data-only --disable-triggers -n "+f.schema+psql))
	restored(t, f, db)
}

// If the schema's functions were not restored, a protected table still refuses: its
// trigger needs none of them.
func TestStressDumpOfAProtectedTableAlone(t *testing.T) {
	t.Parallel()
	f, db, name := dumped(t)
	app := f.named("fence.app")
	run(t, f, f, "CREATE SCHEMA "+app+"; CREATE TABLE "+app+".accounts (id int, writer text); INSERT INTO "+app+".accounts VALUES (42, '')")
	f.atEnd(t, "DROP SCHEMA "+app+" CASCADE")
	f.protect(t, app+".accounts", account)
	require.Empty(t, f.script(t, "pg_dump -n "+app+" | psql -q -v ON_ERROR_STOP=1 -o /dev/null -d "+name+" || echo failed"))
	_, err := db.ExecContext(context.WithoutCancel(t.Context()), "UPDATE "+app+".accounts SET writer = 'x'")
	unguarded(t, err)
}

// publisher is a server whose tables are replicated logically. It runs beside the shared
// one, as the same user, until the pipe to it is closed: when this test or its connection
// to the shared server ends. A cancel of that session signals all its processes.
const publisher = `
trap : INT QUIT
umask 077
mkdir "$FOLDER" && cd "$FOLDER" || exit
initdb -D data -U postgres -A trust -E UTF8 --locale=C --no-sync >log
postgres -D data -p 5432 -c listen_addresses= -c unix_socket_directories="$FOLDER" -c fsync=off -c wal_level=logical >>log 2>&1 </dev/null &
cat >/dev/null
kill -QUIT $!
wait
rm -rf "$FOLDER"`

// shellUntil returns a script that ends when the condition holds, or after two minutes.
func shellUntil(condition string) string {
	return "i=0; until " + condition + "; do i=$((i+1)); [ $i -lt 2400 ] || { echo 'still waiting'; break; }; sleep 0.05; done"
}

// published starts the publisher and returns a function that runs SQL there.
func (f fence) published(t *testing.T) (psql func(text string) string) {
	t.Helper()
	conn := f.conn(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	command := literal(f.shell(t, ctx, publisher))
	ended := make(chan error, 1)
	go func() { ended <- f.exec(ctx, conn, "COPY (SELECT FROM pg_sleep(600)) TO PROGRAM "+command) }()
	t.Cleanup(func() {
		cancel()
		require.Error(t, <-ended)
		require.Empty(t, f.scriptContext(t, context.WithoutCancel(t.Context()), shellUntil(`[ ! -e "$FOLDER" ]`)), "it runs on")
	})
	require.Empty(t, f.script(t, shellUntil(`pg_isready -q -h "$FOLDER" -p 5432`)))
	return func(text string) string {
		t.Helper()
		return f.script(t, `psql -h "$FOLDER" -p 5432 -U postgres -d postgres -qtA -v ON_ERROR_STOP=1 <<'END' || echo failed`+"\n"+f.sql(text)+"\nEND")
	}
}

func TestStressLogicalReplicationIntoAProtectedTable(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	psql := f.published(t)
	const table = "CREATE TABLE fence.accounts (id bigint PRIMARY KEY, writer text)"
	require.Empty(t, psql("CREATE SCHEMA "+f.schema+"; "+table+"; CREATE PUBLICATION accounts FOR TABLE fence.accounts; INSERT INTO fence.accounts VALUES (42, 'copied')"))
	run(t, f, f, table)
	f.protect(t, "fence.accounts", account)
	run(t, f, f, "CREATE SUBSCRIPTION "+f.schema+" CONNECTION 'host=/tmp/"+f.schema+" port=5432 user=postgres dbname=postgres' PUBLICATION accounts WITH (disable_on_error)")
	f.atEnd(t, "DROP SUBSCRIPTION "+f.schema)
	rows := func(want string) {
		t.Helper()
		pgtest.Await(t, func() bool {
			return get[string](t, f, f, "SELECT coalesce(string_agg(id || ' ' || writer, ', ' ORDER BY id), '') FROM fence.accounts") == want
		})
	}
	errors := func() int {
		return get[int](t, f, f, "SELECT apply_error_count FROM pg_stat_subscription_stats WHERE subname = $1", f.schema)
	}
	rows("42 copied")
	require.Empty(t, psql("INSERT INTO fence.accounts VALUES (43, 'applied'); UPDATE fence.accounts SET writer = 'applied' WHERE id = 42"))
	rows("42 applied, 43 applied")
	require.Empty(t, psql("TRUNCATE fence.accounts; INSERT INTO fence.accounts VALUES (44, 'applied'), (45, ''); DELETE FROM fence.accounts WHERE id = 45"))
	rows("44 applied")
	unguarded(t, f.exec(t.Context(), f, "UPDATE fence.accounts SET writer = 'x'"))
	require.Zero(t, errors())

	run(t, f, f, "ALTER TABLE fence.accounts ENABLE ALWAYS TRIGGER zz_fencepost_row")
	require.Empty(t, psql("INSERT INTO fence.accounts VALUES (46, 'refused')"))
	pgtest.Await(t, func() bool { return errors() > 0 })
	rows("44 applied")
	run(t, f, f, "ALTER TABLE fence.accounts ENABLE TRIGGER zz_fencepost_row")
	pgtest.Await(t, func() bool { // disable_on_error: otherwise the applier would retry after five seconds
		return !get[bool](t, f, f, "SELECT subenabled FROM pg_subscription WHERE subname = $1", f.schema)
	})
	run(t, f, f, "ALTER SUBSCRIPTION "+f.schema+" ENABLE")
	rows("44 applied, 46 refused")
}

// New writers queue behind a waiting protect, so its wait is limited.
func TestProtectDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fence      func(t *testing.T) fence
		held, call string
	}{
		"protect, behind a writer":                {newAccounts, "INSERT INTO fence.plain VALUES (44, '')", "protect('fence.plain', 'writer'"},
		"protect, behind a writer of a partition": {unprotectedPartitions, "UPDATE fence.west1 SET n = 1", "protect('fence.jobs', 'region'"},
		"unprotect, behind a reader":              {newAccounts, "SELECT FROM fence.accounts", "unprotect('fence.accounts'"},
		"add_mark_columns, behind a reader":       {newAccounts, "SELECT FROM fence.plain", "add_mark_columns('fence.plain'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, ctx := c.fence(t), t.Context()
			slow := f.begin(t, pgx.ReadCommitted)
			run(t, f, slow, c.held)
			conn := f.conn(t)
			before := f.traces(t)
			require.Equal(t, "55P03", code(f.exec(ctx, conn, "SELECT fence."+c.call+", wait => 50)")))
			require.Equal(t, "0", get[string](t, f, conn, "SHOW lock_timeout"))
			run(t, f, conn, "SET lock_timeout = 20")
			require.Equal(t, "55P03", code(f.exec(ctx, conn, "SELECT fence."+c.call+", wait => 0)")), "the session's own limit stands")
			require.Equal(t, "55P03", code(f.exec(ctx, conn, "SELECT fence."+c.call+", wait => 3600000)")), "where it is the shorter one")
			require.Equal(t, before, f.traces(t), "nothing has changed")

			twin := f.conn(t)
			waits := pgtest.Later(t, func() error { return f.exec(ctx, twin, "SELECT fence."+c.call+", wait => 0)") })
			f.blocked(t, twin) // the twin has no limit and waits for the other transaction
			require.NoError(t, slow.Rollback(ctx))
			require.NoError(t, waits())

			run(t, f, conn, "SET lock_timeout = '1h'; BEGIN")
			run(t, f, conn, "SELECT fence."+c.call+", wait => 600000)")
			require.Equal(t, "1h", get[string](t, f, conn, "SHOW lock_timeout"))
			run(t, f, conn, "COMMIT")
		})
	}
}

func unprotectedPartitions(t *testing.T) fence {
	t.Helper()
	f := newPartitions(t)
	run(t, f, f, "SELECT fence.unprotect('fence.jobs')")
	return f
}

// script runs a script on the server's machine, as the server's user, with its own
// pg_dump and psql, and returns its output. It requires a superuser.
func (f fence) script(t *testing.T, text string) string {
	t.Helper()
	return f.scriptContext(t, t.Context(), text)
}

func (f fence) scriptContext(t *testing.T, ctx context.Context, text string) string {
	t.Helper()
	tx, err := f.Begin(ctx)
	require.NoError(t, err)
	defer tx.Rollback(ctx)
	require.NoError(t, f.exec(ctx, tx, "CREATE TEMP TABLE said (n int GENERATED ALWAYS AS IDENTITY, line text) ON COMMIT DROP"))
	// The separators and quotes of columns do not occur in the text.
	require.NoError(t, f.exec(ctx, tx, "COPY said (line) FROM PROGRAM "+literal(f.shell(t, ctx, text))+" WITH (FORMAT csv, DELIMITER E'\\x01', QUOTE E'\\x02')"))
	var said string
	require.NoError(t, tx.QueryRow(ctx, "SELECT coalesce(string_agg(coalesce(line, ''), E'\\n' ORDER BY n), '') FROM said").Scan(&said))
	return said
}

// shell adds the folder of the server's programs to PATH, and connection settings to the
// environment.
func (f fence) shell(t *testing.T, ctx context.Context, text string) string {
	t.Helper()
	var env string
	require.NoError(t, f.QueryRow(ctx, `SELECT format('export PATH=%L:$PATH PGHOST=127.0.0.1 PGPORT=%s PGUSER=%L PGPASSWORD=%L PGDATABASE=%L FOLDER=%L',
		(SELECT setting FROM pg_config WHERE name = 'BINDIR'), current_setting('port'), session_user, $2::text, current_database(), '/tmp/' || $1)`,
		f.schema, f.Config().ConnConfig.Password).Scan(&env))
	return env + "\nexec 2>&1\n" + text
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
