package doctor_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

func openMySQL(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func examineMySQL(t *testing.T, dsn string) *doctor.Report {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	report, err := doctor.MySQL{Config: config}.Examine(t.Context())
	require.NoError(t, err)
	return report
}

func execMySQL(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query)
	require.NoError(t, err, query)
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	dsn := testenv.MariaDB(t)
	report := examineMySQL(t, dsn)
	require.Equal(t, doctor.Fail, of(t, report, "tables").Verdict, "there are none yet")
	require.Equal(t, doctor.Unknown, of(t, report, "locks").Verdict, "there is none to lock")

	db := openMySQL(t, dsn)
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), db))
	report = examineMySQL(t, dsn)
	require.Equal(t, doctor.Pass, of(t, report, "engine").Verdict)
	require.Equal(t, doctor.Pass, of(t, report, "tables").Verdict)
	require.Equal(t, doctor.Pass, of(t, report, "locks").Verdict)
	require.Equal(t, doctor.Warn, of(t, report, "innodb_flush_log_at_trx_commit").Verdict, "the server of the tests does not wait for its disk")
	require.Equal(t, doctor.Pass, of(t, report, "sync_binlog").Verdict, "there is no log")
	require.Equal(t, "innodb_lock_wait_timeout is 50", of(t, report, "lock waits").Evidence)
	require.Equal(t, "wait_timeout is 28800", of(t, report, "idle sessions").Evidence)

	report = examineMySQL(t, dsn+"?innodb_lock_wait_timeout=2&wait_timeout=30")
	require.Equal(t, doctor.Warn, of(t, report, "lock waits").Verdict)
	require.Equal(t, doctor.Warn, of(t, report, "idle sessions").Verdict)
	report = examineMySQL(t, dsn+"?innodb_lock_wait_timeout=3600")
	require.Equal(t, doctor.Warn, of(t, report, "lock waits").Verdict)

	execMySQL(t, db, "ALTER TABLE fencepost_floor ENGINE = MyISAM")
	report = examineMySQL(t, dsn)
	require.Contains(t, of(t, report, "tables").Evidence, "fencepost_floor has no transactions")
	require.Equal(t, doctor.Fail, of(t, report, "locks").Verdict, "its share lock excludes nothing")
}

func TestHiddenSettingsOfMySQLAreUnknown(t *testing.T) {
	t.Parallel()
	dsn := testenv.MariaDB(t)
	db := openMySQL(t, dsn)
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), db))
	config, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	config.User = config.DBName
	execMySQL(t, db, "CREATE USER '"+config.User+"'")
	t.Cleanup(func() { _, _ = db.Exec("DROP USER '" + config.User + "'") })
	execMySQL(t, db, "GRANT SELECT ON "+config.DBName+".fencepost_marks TO '"+config.User+"'")
	require.Equal(t, doctor.Unknown, of(t, examineMySQL(t, config.FormatDSN()), "locks").Verdict)
}

// hazard M2
func TestMySQLThatIsTiDB(t *testing.T) {
	t.Parallel()
	share := func(report *doctor.Report) doctor.Finding { return of(t, report, "locks") }
	for name, c := range map[string]struct {
		noop     string
		refusal  error
		evidence string
	}{
		"that locks nothing": {"ON", nil, "FOR UPDATE on a second connection succeeded beside LOCK IN SHARE MODE on the first"},
		"that refuses": {"OFF", &mysql.MySQLError{Number: 1235, Message: "function LOCK IN SHARE MODE has only noop implementation in tidb now, " +
			"use tidb_enable_noop_functions to enable these functions"}, "LOCK IN SHARE MODE: Error 1235: function LOCK IN SHARE MODE has only noop implementation"},
	} {
		db := sql.OpenDB(&tidb{noop: c.noop, share: c.refusal})
		t.Cleanup(func() { db.Close() })
		report, err := doctor.ExamineMySQL(t.Context(), db)
		require.NoError(t, err, name)
		found := of(t, report, "engine")
		require.Equal(t, doctor.Fail, found.Verdict, name)
		require.Contains(t, found.Fix, "tidb_enable_noop_functions is "+c.noop, name)
		require.Equal(t, doctor.Fail, share(report).Verdict, name)
		require.Contains(t, share(report).Evidence, c.evidence, name)
	}
}

// tidb answers as TiDB 8.4 does (commit 94b2ac04a0c4, unistore) before it has the
// tables' rows in information_schema; share is its answer to a share lock.
type tidb struct {
	noop  string
	share error
}

func (s *tidb) Connect(context.Context) (driver.Conn, error) { return tidbConn{s}, nil }
func (s *tidb) Driver() driver.Driver                        { return nil }

type tidbConn struct{ *tidb }

func (tidbConn) Prepare(string) (driver.Stmt, error) { return nil, io.ErrUnexpectedEOF }
func (tidbConn) Close() error                        { return nil }
func (c tidbConn) Begin() (driver.Tx, error)         { return c, nil }
func (tidbConn) Commit() error                       { return nil }
func (tidbConn) Rollback() error                     { return nil }

func (tidbConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

func (c tidbConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	switch {
	case query == engine.MySQLQuery:
		return &tidbRows{[][]driver.Value{
			{"version", "8.0.11-TiDB-v8.4.0-this-is-a-placeholder"}, {"tidb_enable_noop_functions", c.noop},
			{"version_comment", "TiDB Server (Apache License 2.0) Community Edition, MySQL 8.0 compatible"},
		}}, nil
	case strings.HasSuffix(query, "LOCK IN SHARE MODE"):
		return &tidbRows{[][]driver.Value{{int64(0)}}}, c.share
	case strings.HasSuffix(query, "FOR UPDATE"):
		return &tidbRows{[][]driver.Value{{int64(0)}}}, nil
	}
	return nil, &mysql.MySQLError{Number: 1105, Message: "not recorded"}
}

type tidbRows struct{ rows [][]driver.Value }

// Columns is called before the first Next.
func (r *tidbRows) Columns() []string { return make([]string, len(r.rows[0])) }
func (*tidbRows) Close() error        { return nil }
func (r *tidbRows) Next(row []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(row, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}
