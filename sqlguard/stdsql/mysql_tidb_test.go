package stdsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// replayed is a server with only a reply to the probe and one row for an admission. Every
// other statement fails the test.
type replayed struct {
	t    *testing.T
	vars [][]driver.Value
	sent []string
}

func replay(t *testing.T, file string) (*sql.DB, *replayed) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	server := &replayed{t: t}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		server.vars = append(server.vars, []driver.Value{name, value})
	}
	db := sql.OpenDB(server)
	t.Cleanup(func() { db.Close() })
	return db, server
}

func (r *replayed) Connect(context.Context) (driver.Conn, error) { return &replayedConn{r}, nil }
func (r *replayed) Driver() driver.Driver                        { return nil }

type replayedConn struct{ *replayed }

func (c *replayedConn) Prepare(query string) (driver.Stmt, error) {
	c.t.Errorf("prepared: %s", query)
	return nil, io.ErrUnexpectedEOF
}
func (c *replayedConn) Close() error { return nil }
func (c *replayedConn) Begin() (driver.Tx, error) {
	c.sent = append(c.sent, "BEGIN")
	return c, nil
}
func (c *replayedConn) Commit() error   { c.t.Error("COMMIT"); return nil }
func (c *replayedConn) Rollback() error { c.sent = append(c.sent, "ROLLBACK"); return nil }

func (c *replayedConn) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	switch {
	case query == engine.MySQLQuery:
		c.sent = append(c.sent, "probe")
		return &replayedRows{columns: []string{"Variable_name", "Value"}, rows: c.vars}, nil
	case strings.HasSuffix(query, "LOCK IN SHARE MODE"):
		c.sent = append(c.sent, "share")
		return &replayedRows{columns: []string{"number", "holder", "@fencepost_engine"}, rows: [][]driver.Value{{int64(33), "a", nil}}}, nil
	}
	c.t.Errorf("sent: %s", query)
	return nil, io.ErrUnexpectedEOF
}

type replayedRows struct {
	columns []string
	rows    [][]driver.Value
}

func (r *replayedRows) Columns() []string { return r.columns }
func (r *replayedRows) Close() error      { return nil }
func (r *replayedRows) Next(row []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(row, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

// The replies in testdata are from TiDB 8.4 (commit 94b2ac04a0c4, unistore).
//
// hazard M2
func TestTiDBIsAskedAndSentNothingElse(t *testing.T) {
	t.Parallel()
	for file, reason := range map[string]string{
		"tidb_on.tsv":        "tidb_enable_noop_functions is ON, so that LOCK IN SHARE MODE is accepted and locks nothing",
		"tidb_warn.tsv":      "tidb_enable_noop_functions is WARN, so that LOCK IN SHARE MODE is accepted and locks nothing",
		"tidb_off.tsv":       "tidb_enable_noop_functions is OFF, so that LOCK IN SHARE MODE is an error",
		"tidb_promotion.tsv": "tidb_enable_shared_lock_promotion is ON",
	} {
		db, server := replay(t, file)
		db.SetMaxOpenConns(1)
		g, ctx := &stdsql.Guard{DB: db, Dialect: stdsql.MySQL}, holding(t, 33, "a")
		sent := map[string][]string{
			"Admit": {"probe"}, "Update": {"probe"}, "UpdateAll": {"probe"},
			"Join": {"BEGIN", "share", "probe", "ROLLBACK"},
		}
		for range 2 { // on the same connection: a refusal is not cached
			for door, enter := range doors(t, g, ctx, tok(33, "a"), func(*sql.Tx) error { t.Error("fn must not run"); return nil }) {
				server.sent = nil
				err := enter()
				require.ErrorIs(t, err, guard.ErrUnfenced, door)
				require.ErrorContains(t, err, "TiDB (8.0.11-TiDB-v8.4.0-this-is-a-placeholder): "+reason, door)
				require.ErrorContains(t, err, engine.Page, door)
				require.False(t, guard.IsRefusal(err), door)
				require.Equal(t, sent[door], server.sent, door)
			}
		}
		_, err := db.Conn(t.Context())
		require.NoError(t, err, "the connection is in the pool")
	}
}

// asTiDB returns a pool over MariaDB that replies to the probe as TiDB, and whose locking
// reads lock nothing, as with tidb_enable_noop_functions. If locks is true, they lock.
func (db *database) asTiDB(t *testing.T, locks bool) *sql.DB {
	t.Helper()
	as := otherEngines[stdsql.MySQL]
	return connectHooked(t, "mysql", db.setting(t, "innodb_lock_wait_timeout", "1"), &hooks{query: func(query string) string {
		switch {
		case query == as.probe:
			return as.answer
		case locks:
			return query
		}
		return strings.TrimSuffix(query, "LOCK IN SHARE MODE")
	}})
}

// overtaking is the interleaving of the hazard, through each door. Each step is forced:
//
//  1. 33 is admitted, by a read that locks nothing.
//  2. 34 is admitted, without a wait, and writes.
//  3. 33 writes.
func overtaking(t *testing.T, g *stdsql.Guard) map[string]func() error {
	t.Helper()
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	overtaken := func(tx *sql.Tx) error {
		if err := g.Update(newer, account, record(t, tok(34, "b"))); err != nil {
			return err
		}
		return record(t, tok(33, "a"))(tx)
	}
	return doors(t, g, older, tok(33, "a"), overtaken)
}

// hazard M2
func TestALockingReadThatLocksNothing(t *testing.T) {
	t.Parallel()
	for _, door := range []string{"Update", "UpdateAll", "Join"} {
		t.Run("the twin that vouches for it is corrupted, in "+door, func(t *testing.T) {
			t.Parallel()
			db := newMySQL(t)
			db.claim(t, tok(33, "a"))
			twin := db.over(db.asTiDB(t, true))
			twin.DangerouslyTrustEngine = true
			require.ErrorIs(t, overtaking(t, twin)[door](), guard.ErrRetryable, "with the lock, 34 waits for 33")
			require.Zero(t, one[int](t, db, "SELECT count(*) FROM ledger"))
			twin.DB = db.asTiDB(t, false)
			require.NoError(t, overtaking(t, twin)[door](), "the twin must accept the stale write")
			require.Equal(t, guard.Mark{Number: 34, Holder: "b"}, db.mark(t, account))
			require.Equal(t, 34, one[int](t, db, "SELECT number FROM ledger ORDER BY seq LIMIT 1"))
			require.Equal(t, 33, one[int](t, db, "SELECT number FROM ledger ORDER BY seq DESC LIMIT 1"), "after the newer one's")
		})
	}
	t.Run("is refused", func(t *testing.T) {
		t.Parallel()
		db := newMySQL(t)
		db.claim(t, tok(33, "a"))
		for door, enter := range overtaking(t, db.over(db.asTiDB(t, false))) {
			require.ErrorIs(t, enter(), guard.ErrUnfenced, door)
		}
		require.Zero(t, one[int](t, db, "SELECT count(*) FROM ledger"))
		require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))
	})
}
