package sqlpoint_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
)

// script uses every feature of database/sql, and returns the results.
func script(ctx context.Context, db *sql.DB) (said []string) {
	say := func(what ...any) { said = append(said, fmt.Sprintln(what...)) }
	say("ping", db.PingContext(ctx))
	for _, arg := range []any{1, "a", special{}, sql.Named("n", 1), driver.Valuer(nil)} {
		say("exec", run(ctx, db, "INSERT", arg))
		prepared, err := db.PrepareContext(ctx, "INSERT prepared")
		say("prepare", err)
		_, err = prepared.ExecContext(ctx, arg)
		say("prepared", err, prepared.Close())
	}
	rows, err := db.QueryContext(ctx, "SELECT", 1)
	say("query", err)
	types, err := rows.ColumnTypes()
	say("types", types[0].ScanType(), types[0].DatabaseTypeName(), err)
	say(types[0].Length())
	say(types[0].Nullable())
	say(types[0].DecimalSize())
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			var n int
			say("row", rows.Scan(&n), n)
		}
	}
	say("rows", rows.Err(), rows.Close())
	for _, opts := range []*sql.TxOptions{nil, {ReadOnly: true}, {Isolation: sql.LevelSerializable}} {
		tx, err := db.BeginTx(ctx, opts)
		say("begin", err)
		if err == nil {
			say("commit", run(ctx, tx, "INSERT", 2), tx.Commit())
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	say("gone", run(gone, db, "INSERT", 3))
	say("raw", onConn(ctx, db, func(conn *sql.Conn) error { return conn.Raw(func(any) error { return driver.ErrBadConn }) }))
	say("close", db.Close())
	return said
}

// The driver gets the same calls as without the wrapper, and the caller the same results,
// with or without a simulation.
func TestTheWrapperChangesNothing(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func() (driver.Connector, *minimal){
		"a driver that has only what it must": func() (driver.Connector, *minimal) { m := &minimal{}; return m, m },
		"a driver that only executes at once": func() (driver.Connector, *minimal) { h := &half{}; return h, &h.minimal },
		"a driver that only queries at once":  func() (driver.Connector, *minimal) { h := &half{queries: true}; return h, &h.minimal },
		"a driver with everything":            func() (driver.Connector, *minimal) { f := &full{}; return f, &f.minimal },
		"a driver that skips": func() (driver.Connector, *minimal) {
			f := &full{}
			f.fail = map[string]error{"ExecContext": driver.ErrSkip, "QueryContext": driver.ErrSkip, "Stmt.CheckNamedValue": driver.ErrSkip}
			return f, &f.minimal
		},
		"a driver whose connections go bad": func() (driver.Connector, *minimal) {
			f := &full{}
			f.fail = map[string]error{"IsValid": errBroken, "Commit": driver.ErrBadConn, "ResetSession": driver.ErrBadConn}
			return f, &f.minimal
		},
		"a driver whose rows break": func() (driver.Connector, *minimal) {
			f := &full{}
			f.fail = map[string]error{"Rows.Next": errBroken, "Rows.Close": errMine}
			return f, &f.minimal
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, calls := fresh()
			want := script(t.Context(), sql.OpenDB(base))
			var h hooktest.Record
			for _, ctx := range []context.Context{t.Context(), h.Listen(t.Context())} {
				base, wrapped := fresh()
				require.Equal(t, want, script(ctx, sql.OpenDB(sqlpoint.Wrap(base))))
				require.Equal(t, calls.calls, wrapped.calls)
			}
			require.NotEmpty(t, h.Steps)
		})
	}
}

func TestADriverWithoutContextsIsRefused(t *testing.T) {
	t.Parallel()
	o := &old{}
	db := sql.OpenDB(sqlpoint.Wrap(o))
	defer db.Close()
	require.ErrorContains(t, db.Ping(), "has no BeginTx")
	o.begins = true
	_, err := db.Prepare("INSERT")
	require.ErrorContains(t, err, "has no ExecContext and QueryContext")
	require.Equal(t, []string{"Close", "PrepareINSERT", "Stmt.Close"}, o.calls)
}

// registered makes -count possible: a driver is registered once.
var registered = sync.OnceFunc(func() { sql.Register("minimal", &minimal{}) })

func TestOpen(t *testing.T) {
	t.Parallel()
	_, err := sqlpoint.Open("no such driver", "")
	require.Error(t, err)
	registered()
	db, err := sqlpoint.Open("minimal", "dsn")
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.Ping())
	require.IsType(t, &minimalConn{}, unwrap(t, db))
}

type state string

func (s state) Error() string    { return "state " + string(s) }
func (s state) SQLState() string { return string(s) }

type code int

func (c code) Error() string { return "code" }
func (c code) Code() int     { return int(c) }

func TestWhatAnErrorLeavesOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		outcome string
	}{
		{nil, "applied"}, {errBroken, "unknown"}, {context.Canceled, "unknown"}, {state("08006"), "unknown"}, {state("57P01"), "unknown"},
		{state(""), "unknown"}, {state("23505"), "undone"}, {state("40001"), "undone"},
		{code(5), "undone"}, {code(2067), "undone"}, {code(10), "unknown"}, {code(266), "unknown"},
		{errors.New("commit unexpectedly resulted in rollback"), "undone"},
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			t.Parallel()
			f := &full{}
			db := sql.OpenDB(sqlpoint.Wrap(f))
			defer db.Close()
			var h hooktest.Record
			ctx := h.Listen(t.Context())
			f.fail = map[string]error{"ExecContext": c.err}
			require.Equal(t, c.err, run(ctx, db, "INSERT"))
			f.fail = map[string]error{"Commit": c.err}
			require.Equal(t, c.err, inTx(ctx, db, func(tx *sql.Tx) error { return run(ctx, tx, "INSERT") }))
			require.Equal(t, []string{"begin " + c.outcome, "begin statement commit " + c.outcome}, h.Transactions())
		})
	}
	t.Run("a connection that was bad has run no statement, and may have run a COMMIT", func(t *testing.T) {
		t.Parallel()
		f := &full{}
		db := sql.OpenDB(sqlpoint.Wrap(f))
		defer db.Close()
		var h hooktest.Record
		ctx := h.Listen(t.Context())
		f.fail = map[string]error{"Commit": driver.ErrBadConn}
		require.Error(t, inTx(ctx, db, func(tx *sql.Tx) error { return run(ctx, tx, "INSERT") }))
		f.fail = map[string]error{"BeginTx": errBroken}
		require.Error(t, inTx(ctx, db, nil))
		f.fail = map[string]error{"ExecContext": driver.ErrBadConn}
		require.Error(t, run(ctx, db, "INSERT"))
		require.Equal(t, []string{"begin statement commit unknown", "begin undone", "begin undone", "begin undone", "begin undone"}, h.Transactions())
	})
}
