package stdsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// autocommitConn is a connection whose transactions do nothing, as those of rqlite's
// gorqlite/stdlib: each statement commits by itself.
type autocommitConn struct{ *hookedConn }

func (autocommitConn) Begin() (driver.Tx, error) { return noTx{}, nil }

func (autocommitConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return noTx{}, nil
}

type noTx struct{}

func (noTx) Commit() error   { return nil }
func (noTx) Rollback() error { return nil }

type autocommitConnector struct{ *hookedConnector }

func (c autocommitConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.hookedConnector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return autocommitConn{conn.(*hookedConn)}, nil
}

// autocommitting returns a pool over the file of a SQLite database.
func (db *database) autocommitting(t *testing.T, h *hooks) *sql.DB {
	t.Helper()
	pool := sql.OpenDB(autocommitConnector{&hookedConnector{dsn: db.dsn, driver: db.Driver(), hooks: h}})
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return pool
}

// sent are the statements without rows that a pool has sent.
type sent struct {
	mu         sync.Mutex
	statements []string
}

func (s *sent) add(query string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb, _, _ := strings.Cut(query, " ")
	s.statements = append(s.statements, verb)
	return nil
}

func (s *sent) take() (statements []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	statements, s.statements = s.statements, nil
	return statements
}

// minting adds to the doors those that mint.
func minting(t *testing.T, g *stdsql.Guard, doors map[string]func() error) map[string]func() error {
	t.Helper()
	doors["Mint"] = func() error {
		_, err := g.Mint(t.Context(), account, "m")
		return err
	}
	doors["MintTx"] = func() error {
		return inTx(t, g.DB, func(tx *sql.Tx) error {
			_, err := g.MintTx(t.Context(), tx, account, "m")
			return err
		})
	}
	return doors
}

// hazard G28
func TestASQLiteDriverWithoutTransactionsIsRefused(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	db.claim(t, tok(33, "a"))
	var log sent
	pool := db.autocommitting(t, &hooks{exec: log.add})
	pool.SetMaxOpenConns(1)
	for _, own := range []token.Token{tok(33, "a"), tok(34, "b")} { // the mark's own token, and one that has to raise it
		g, ctx := db.over(pool), token.NewContext(t.Context(), own)
		for range 2 { // a refusal is not cached
			for door, enter := range minting(t, g, doors(t, g, ctx, own, func(*sql.Tx) error { t.Error("fn must not run"); return nil })) {
				err := enter()
				require.ErrorIs(t, err, guard.ErrUnfenced, door)
				require.ErrorContains(t, err, "VACUUM returned SQL logic error: non-text filename (1)", door)
				require.ErrorContains(t, err, engine.Page, door)
				require.False(t, guard.IsRefusal(err), door)
				require.Equal(t, []string{"VACUUM"}, log.take(), "%s: nothing else was sent", door)
			}
		}
	}
	require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))
	require.Equal(t, 100, balance(t, db))
	_, err := pool.ExecContext(t.Context(), "ROLLBACK")
	require.ErrorContains(t, err, "no transaction is active", "the connection goes back as it was")
}

// The twin vouches for the driver:
//
//  1. 33 is admitted. The admission commits by itself and holds nothing.
//  2. 34 is admitted, and writes.
//  3. 33 writes, and overwrites 34.
//
// hazard G28
func TestTheTwinOfADriverWithoutTransactionsIsCorrupted(t *testing.T) {
	t.Parallel()
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	for _, join := range []bool{false, true} {
		db := newSQLite(t)
		pool := db.autocommitting(t, &hooks{})
		twin := db.over(pool)
		twin.DangerouslyTrustEngine = true
		overtaken := func(tx *sql.Tx) error {
			seen := balance(t, tx)
			require.NoError(t, twin.Update(newer, account, add(newer, 50)))
			return write(older, tx, seen+10)
		}
		var err error
		if join {
			err = inTx(t, pool, func(tx *sql.Tx) error {
				require.NoError(t, twin.Join(older, tx, account))
				return overtaken(tx)
			})
		} else {
			err = twin.Update(older, account, overtaken)
		}
		require.NoError(t, err, "the twin must accept the stale write")
		require.Equal(t, 110, balance(t, db), "the twin must lose the newer one's write")
		require.Equal(t, guard.Mark{Number: 34, Holder: "b"}, db.mark(t, account))
	}
}

// The probe is one statement of a connection's first transaction, and of each that the
// caller has begun: a *sql.Tx does not expose its connection.
func TestSQLiteIsProbedOnceForEachConnection(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	var log sent
	pool := db.hooked(t, &hooks{exec: log.add})
	pool.SetMaxOpenConns(1)
	ctx := holding(t, 33, "a")
	update := func() { require.NoError(t, db.over(pool).Update(ctx, account, add(ctx, 1))) }
	join := func() {
		require.NoError(t, inTx(t, pool, func(tx *sql.Tx) error { return db.over(nil).Join(ctx, tx, account) }))
	}
	update()
	require.Equal(t, []string{"VACUUM", "INSERT", "UPDATE"}, log.take())
	for range 2 {
		update()
		require.Equal(t, []string{"INSERT", "UPDATE"}, log.take())
		join()
		require.Equal(t, []string{"VACUUM", "INSERT"}, log.take())
	}
	pool.SetMaxIdleConns(0)
	update()
	require.Equal(t, []string{"VACUUM", "INSERT", "UPDATE"}, log.take(), "of another connection")
	trusting := db.over(pool)
	trusting.DangerouslyTrustEngine = true
	require.NoError(t, trusting.Update(ctx, account, add(ctx, 1)))
	require.Equal(t, []string{"INSERT", "UPDATE"}, log.take())
}

// hazard G28
func TestWhatTheProbeOfSQLiteReturns(t *testing.T) {
	t.Parallel()
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	for name, c := range map[string]struct {
		err      error
		is       error // nil for admitted
		unfenced bool
	}{
		"the refusal of mattn/go-sqlite3":     {err: errors.New("cannot VACUUM from within a transaction")},
		"outside of a transaction":            {errors.New("non-text filename"), guard.ErrUnfenced, true},
		"beside a statement that is not over": {errors.New("cannot VACUUM - SQL statements in progress"), guard.ErrUnfenced, true},
		"a database without it":               {errors.New("unsupported statement"), guard.ErrUnfenced, true},
		"a lock of another connection":        {errors.New("database schema is locked: main"), guard.ErrRetryable, false},
		"the context ended":                   {context.DeadlineExceeded, context.DeadlineExceeded, false},
		"no connection":                       {driver.ErrBadConn, driver.ErrBadConn, false},
		"a connection that was reset":         {reset, reset, false},
		"a connection that was closed":        {io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, false},
	} {
		db := newSQLite(t)
		pool := db.hooked(t, &hooks{exec: func(query string) error {
			if query == "VACUUM INTO NULL" {
				return c.err
			}
			return nil
		}})
		g, ctx := db.over(pool), holding(t, 33, "a")
		for door, enter := range doors(t, g, ctx, tok(33, "a"), add(ctx, 10)) {
			err := enter()
			require.ErrorIs(t, err, c.is, "%s, %s", name, door)
			require.Equal(t, c.unfenced, errors.Is(err, guard.ErrUnfenced), "%s, %s: %v", name, door, err)
		}
		if c.is != nil {
			require.Zero(t, db.mark(t, account), name)
			require.Equal(t, 100, balance(t, db), name)
		}
	}
}

// SQLite before 3.27 has VACUUM without INTO.
func TestAnOldSQLiteIsProbedWithoutInto(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	h := &hooks{exec: func(query string) error {
		if query == "VACUUM INTO NULL" {
			return errors.New(`SQL logic error: near "INTO": syntax error (1)`)
		}
		return nil
	}}
	ctx := holding(t, 33, "a")
	for door, enter := range doors(t, db.over(db.hooked(t, h)), ctx, tok(33, "a"), add(ctx, 10)) {
		require.NoError(t, enter(), door)
	}
	require.Equal(t, 130, balance(t, db))
	for door, enter := range doors(t, db.over(db.autocommitting(t, h)), ctx, tok(33, "a"), add(ctx, 10)) {
		require.ErrorIs(t, enter(), guard.ErrUnfenced, door)
	}
	require.Equal(t, 130, balance(t, db))
}
