package stdsql_test

import (
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// pair are two writers of one database, with a pool each. sent tells that the
// second has asked to be admitted.
type pair struct {
	db            *sql.DB
	first, second *stdsql.Guard
	sent          chan struct{}
}

func newPair(t *testing.T) pair {
	t.Helper()
	settings := patient + "&" + wal
	file, sent := newFile(t, settings), make(chan struct{})
	var once sync.Once
	second := connectHooked(t, dsn(file, settings), &hooks{exec: func(query string) error {
		if strings.Contains(query, "fencepost_marks") {
			once.Do(func() { close(sent) })
		}
		return nil
	}})
	db := connect(t, dsn(file, settings))
	return pair{db: db, first: &stdsql.Guard{DB: db}, second: &stdsql.Guard{DB: second}, sent: sent}
}

func TestTheStaleBehindAnOpenTransactionOfTheNewer(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	late := make(chan error, 1)
	require.NoError(t, p.first.Update(newer, account, func(tx *sql.Tx) error {
		go func() { late <- p.second.Update(older, account, add(older, 50)) }()
		<-p.sent
		return add(newer, 10)(tx)
	}))
	require.ErrorIs(t, <-late, guard.ErrStale)
	require.Equal(t, 110, balance(t, p.db))
}

func TestTheNewerBehindAnOpenTransactionOfTheOlder(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")
	next := make(chan error, 1)
	require.NoError(t, p.first.Update(older, account, func(tx *sql.Tx) error {
		go func() { next <- p.second.Update(newer, account, add(newer, 10)) }()
		<-p.sent
		return add(older, 50)(tx)
	}))
	require.NoError(t, <-next)
	require.Equal(t, 160, balance(t, p.db), "the newer one must have read what the older one wrote")
	require.ErrorIs(t, p.first.Update(older, account, add(older, 50)), guard.ErrStale)
}

// hazard G1
func TestCompareAndWriteAreOneTransaction(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	g := &stdsql.Guard{DB: db}
	zombie, successor, third := holding(t, 33, "a"), holding(t, 34, "b"), holding(t, 35, "c")
	require.NoError(t, g.Admit(t.Context(), tok(33, "a")))

	require.Equal(t, int64(33), mark(t, db, account).Number, "the twin looks, and may write")
	require.NoError(t, g.Update(successor, account, add(successor, 10))) // in between
	require.NoError(t, write(zombie, db, 150))
	require.Equal(t, 150, balance(t, db), "the twin must lose the successor's write")

	hasty := &stdsql.Guard{DB: connect(t, dsn(databaseFile(t, db), hasty))}
	require.NoError(t, g.Update(successor, account, func(tx *sql.Tx) error {
		require.ErrorIs(t, hasty.Update(third, account, add(third, 1)), guard.ErrRetryable, "nobody gets in between")
		return add(successor, 10)(tx)
	}))
	require.ErrorIs(t, g.Update(zombie, account, add(zombie, 50)), guard.ErrStale)
	require.Equal(t, 160, balance(t, db))
}

// hazard G3
func TestTheFenceStandsBeforeTheRead(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	g := &stdsql.Guard{DB: db}
	older, newer := holding(t, 33, "a"), holding(t, 34, "b")

	seen, err := read(newer, db) // the twin reads first, and fences its write alone
	require.NoError(t, err)
	require.NoError(t, g.Update(older, account, add(older, 50)))
	require.NoError(t, g.Update(newer, account, func(tx *sql.Tx) error { return write(newer, tx, seen+10) }))
	require.Equal(t, 110, balance(t, db), "the twin must lose an acknowledged write, though all were in order")

	newest := token.NewContext(t.Context(), tok(35, "c"))
	require.NoError(t, g.Admit(newest, tok(35, "c"))) // a claim
	seen, err = read(newest, db)
	require.NoError(t, err)
	require.ErrorIs(t, g.Update(newer, account, add(newer, 50)), guard.ErrStale)
	require.NoError(t, g.Update(newest, account, func(tx *sql.Tx) error { return write(newest, tx, seen+10) }))
	require.Equal(t, 120, balance(t, db))
}

// hazard G9
func TestMarksOutliveTheData(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	g := &stdsql.Guard{DB: db}
	zombie, successor := holding(t, 33, "a"), holding(t, 34, "b")

	run(t, db, "CREATE TABLE twin (id INTEGER PRIMARY KEY, balance INTEGER, number INTEGER)")
	fenced := "INSERT INTO twin VALUES (42, ?1, ?2) ON CONFLICT DO UPDATE SET balance = ?1, number = ?2 WHERE number <= ?2"
	run(t, db, fenced, 100, 34)
	run(t, db, "DELETE FROM twin")
	run(t, db, fenced, 50, 33)
	var number int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT number FROM twin").Scan(&number))
	require.Equal(t, 33, number, "the twin must take the stale write, since its mark went with the row")

	require.NoError(t, g.Update(successor, account, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(successor, "DELETE FROM accounts")
		return err
	}))
	require.ErrorIs(t, g.Update(zombie, account, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(zombie, "INSERT INTO accounts VALUES (42, 50)")
		return err
	}), guard.ErrStale)
}

func databaseFile(t *testing.T, db *sql.DB) (file string) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list").Scan(&file))
	return file
}
