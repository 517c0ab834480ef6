package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// poison is the number of a forged token.
const poison = 999_999_999_999_999

// unit is the unit of token numbers.
const unit = 10 * time.Microsecond

// date is the time of a number, as the command prints it.
func date(n int64) string {
	return time.UnixMicro(n * unit.Microseconds()).UTC().Format("2006-01-02T15:04:05.00Z07:00")
}

// marked is a database with marks, for fencepost marks.
type marked struct {
	*testing.T
	*sql.DB
	flags []string // of the database

	pool   *pgxpool.Pool // nil on MySQL
	schema string
}

func newMarked(t *testing.T) *marked {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	return &marked{t, db, []string{"--postgres", testenv.PostgresURL(t), "--schema", schema}, pool, schema}
}

func newMarkedMySQL(t *testing.T) *marked {
	t.Helper()
	dsn := testenv.MariaDB(t)
	require.Zero(t, execute(t, "migrate", "up", "--mysql", dsn).status)
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return &marked{T: t, DB: db, flags: []string{"--mysql", dsn}}
}

// onEach runs a test on databases of each kind. The test gets a maker of them.
func onEach(t *testing.T, test func(t *testing.T, newMarked func(t *testing.T) *marked)) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T) *marked{"PostgreSQL": newMarked, "MySQL": newMarkedMySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, make)
		})
	}
}

// sql puts the names of the database in place of those that begin with "fence.".
func (m *marked) sql(text string) string {
	if m.pool == nil {
		return strings.ReplaceAll(text, "fence.", "fencepost_")
	}
	return strings.ReplaceAll(text, "fence.", pgx.Identifier{m.schema}.Sanitize()+".")
}

func (m *marked) exec(text string, args ...any) {
	m.Helper()
	_, err := m.ExecContext(m.Context(), m.sql(text), args...)
	require.NoError(m, err, text)
}

func (m *marked) admit(resource string, number int64, holder string) {
	m.Helper()
	require.NoError(m, m.tryAdmit(resource, number, holder))
}

func (m *marked) tryAdmit(resource string, number int64, holder string) error {
	m.Helper()
	if m.pool == nil {
		g := stdsql.Guard{DB: m.DB, Dialect: stdsql.MySQL}
		return g.Admit(m.Context(), token.Token{Resource: resource, Number: number, Holder: holder})
	}
	_, err := m.ExecContext(m.Context(), m.sql("SELECT fence.admit($1, $2, $3)"), resource, number, holder)
	return err
}

// write begins a transaction that is admitted for the resource, under its mark as it is.
func (m *marked) write(resource string) *sql.Tx {
	m.Helper()
	n, holder := m.mark(resource)
	tx, err := m.BeginTx(m.Context(), nil)
	require.NoError(m, err)
	m.Cleanup(func() { _ = tx.Rollback() })
	text := fmt.Sprintf("SELECT fence.admit('%s', %d, '%s')", resource, n, holder)
	if m.pool == nil {
		text = fmt.Sprintf("SELECT number FROM fencepost_marks WHERE resource = '%s' LOCK IN SHARE MODE", resource)
	}
	rows, err := tx.QueryContext(m.Context(), m.sql(text))
	require.NoError(m, err)
	for rows.Next() { // a statement is over with its last row
	}
	require.NoError(m, rows.Err())
	require.NoError(m, rows.Close())
	return tx
}

// raiseFloor is the floor of a prune.
func (m *marked) raiseFloor(number int64) {
	m.exec(fmt.Sprintf("UPDATE fence.floor SET number = %d", number))
}

func (m *marked) one(text string, into ...any) {
	m.Helper()
	require.NoError(m, m.QueryRowContext(m.Context(), m.sql(text)).Scan(into...))
}

// ago is the number of a time before the server's clock.
func (m *marked) ago(d time.Duration) (n int64) {
	m.Helper()
	clock := "fence.number_at(clock_timestamp())"
	if m.pool == nil {
		clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 10"
	}
	m.one(fmt.Sprintf("SELECT %s - %d", clock, d/unit), &n)
	return n
}

func (m *marked) mark(resource string) (n int64, holder string) {
	m.Helper()
	m.one("SELECT number, holder FROM fence.marks WHERE resource = '"+resource+"'", &n, &holder)
	return n, holder
}

func (m *marked) floor() (n int64) {
	m.Helper()
	m.one("SELECT number FROM fence.floor", &n)
	return n
}

// args returns the arguments of a fencepost marks command for this database.
func (m *marked) args(args ...string) []string {
	return append(append([]string{"marks"}, m.flags...), args...)
}

func (m *marked) run(args ...string) finished {
	m.Helper()
	return execute(m.T, m.args(args...)...)
}

func (m *marked) typing(input string, args ...string) finished {
	m.Helper()
	return typing(m.T, input, m.args(args...)...)
}

// objects reads lines of JSON.
func objects(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &object), line)
		list = append(list, object)
	}
	return list
}

func TestMissingFlagsAndServersAreReported(t *testing.T) {
	t.Parallel()
	url, dsn := testenv.PostgresURL(t), testenv.MariaDB(t)
	for name, c := range map[string]struct {
		args string
		text string
	}{
		"the database":     {"marks list", "give --postgres=URL or --mysql=DSN, or set FENCEPOST_POSTGRES_URL or FENCEPOST_MYSQL_DSN (see fencepost marks list --help)"},
		"one database":     {"marks list --postgres postgres://h/db --mysql u@tcp(h)/db", "--postgres and --mysql exclude each other"},
		"a server":         {"marks list --postgres postgres://u:sekret@127.0.0.1:1/db", "postgres cannot be used"},
		"a MySQL server":   {"marks list --mysql u:sekret@tcp(127.0.0.1:1)/db", "mysql at 127.0.0.1:1, database db cannot be used: "},
		"a right URL":      {"marks list --postgres postgres://u:sek%ret@127.0.0.1/db", "postgres: neither"},
		"a URL with //":    {"migrate up --postgres postgres:u:sekret@db:5432/shop?sslmode=disable", "postgres: neither a postgres:// URL"},
		"a right DSN":      {"marks list --mysql u:sekret@127.0.0.1/db", "mysql: not a DSN that can be read, as user@tcp(host:3306)/database"},
		"a database name":  {"marks list --mysql u:sekret@tcp(127.0.0.1)/", "mysql: the DSN names no database"},
		"no schema":        {"marks list --schema x --mysql u:sekret@tcp(127.0.0.1)/db", "--schema is for PostgreSQL"},
		"migrations":       {"marks list --schema fence_nowhere --postgres " + url, `fencepost: schema "fence_nowhere" lacks what the migrations make: run fencepost migrate up: ERROR: `},
		"a lock's tables":  {"locks show job --schema fence_nowhere --postgres " + url, `fencepost: schema "fence_nowhere" lacks what the migrations make: run fencepost migrate up: `},
		"MySQL migrations": {"marks list --mysql " + dsn, "fencepost: the database lacks what the migrations make: run fencepost migrate up --mysql: Error 1146"},
		"a resource":       {"marks show --postgres " + url, `expected "<resource>" (see fencepost marks show --help)`},
		"an age":           {"marks prune --postgres " + url, "missing flags: --older-than=DURATION (see fencepost marks prune --help)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := execute(t, strings.Fields(c.args)...)
			requireFailed(t, done, 2, c.text)
			require.LessOrEqual(t, strings.Count(done.err, "ERROR: "), 1, done.err)
			require.NotContains(t, done.err, "sek")
		})
	}
}
