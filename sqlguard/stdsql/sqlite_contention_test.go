package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

// envWrites sets how many writes are tried under each of the settings.
const envWrites = "FENCEPOST_SQLITE"

// contention is many connections to one file, whose writers cancel at random times. Each
// attempt that is applied leaves its id in the table.
type contention struct {
	file, settings string
	main           *database

	mu       sync.Mutex
	minted   int64
	attempts []error // the result of each; its id is its index
}

// fieldSettings are common settings of SQLite.
var fieldSettings = map[string]string{
	"wal":                             wal + "&" + longBusyTimeout,
	"wal, no busy timeout":            wal + "&" + noBusyTimeout,
	"wal, immediate":                  wal + "&_txlock=immediate&" + longBusyTimeout,
	"wal, exclusive, no busy timeout": wal + "&_txlock=exclusive&" + noBusyTimeout,
	"wal, one cache":                  wal + "&cache=shared&" + longBusyTimeout,
	"wal, one cache, uncommitted":     wal + "&cache=shared&_pragma=read_uncommitted(1)&" + longBusyTimeout,
	"delete":                          rollback + "&" + longBusyTimeout,
	"delete, no busy timeout":         rollback + "&" + noBusyTimeout,
	"delete, exclusive":               rollback + "&_txlock=exclusive&" + longBusyTimeout,
	"delete, one cache":               rollback + "&cache=shared&" + longBusyTimeout,
	"truncate, immediate":             "_pragma=journal_mode(TRUNCATE)&_pragma=synchronous(OFF)&_txlock=immediate&" + longBusyTimeout,
	"persist":                         "_pragma=journal_mode(PERSIST)&_pragma=synchronous(OFF)&" + longBusyTimeout,
	"wal, full disk":                  wal + "&_pragma=max_page_count(16)&" + longBusyTimeout,
	"delete, full disk":               rollback + "&_pragma=max_page_count(16)&" + longBusyTimeout,
}

func TestManyConnectionsToOneFile(t *testing.T) { connected(t, 30) }
func TestStressManyConnectionsToOneFile(t *testing.T) {
	connected(t, testenv.Rounds(t, envWrites, 150))
}

func connected(t *testing.T, writes int) {
	t.Parallel()
	for name, settings := range testenv.Some(t, fieldSettings, "wal, one cache", "delete") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &contention{file: newFile(t, settings), settings: settings}
			c.main = onSQLite(t, c.file, settings)
			run(t, c.main, "CREATE TABLE attempts (seq INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER, number BIGINT, padding TEXT)")
			run(t, c.main, "UPDATE accounts SET balance = 0")
			c.run(t, writes)
			c.compare(t)
		})
	}
}

// run has 64 writers over four pools, while others read, checkpoint the log, and vacuum
// the file.
func (c *contention) run(t *testing.T, writes int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writers, others sync.WaitGroup
	var pools []*database
	for range 4 {
		pools = append(pools, onSQLite(t, c.file, c.settings))
	}
	seed := rand.Uint64()
	for i := range 64 {
		db := pools[i%len(pools)]
		writers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			var own token.Token
			for c.tried() < writes {
				c.try(t.Context(), db, r, &own, i)
			}
		})
	}
	for _, statement := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "SELECT count(*) FROM attempts", "PRAGMA incremental_vacuum"} {
		others.Go(func() {
			for ctx.Err() == nil {
				// It may fail with a conflict. Its context does not end with ctx: modernc.org/sqlite 1.40
				// races if it interrupts a statement while database/sql closes the connection.
				_, _ = c.main.ExecContext(t.Context(), statement)
				time.Sleep(time.Millisecond)
			}
		})
	}
	writers.Wait()
	stop()
	others.Wait()
	t.Logf("seed %d", seed)
	for _, db := range append(pools, c.main) {
		c.closed(t, db)
	}
}

func (c *contention) tried() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.attempts) }

var errTried = errors.New("under way")

// try is one read-modify-write, which may be cancelled at any time.
func (c *contention) try(ctx context.Context, db *database, r *rand.Rand, own *token.Token, writer int) {
	c.mu.Lock()
	if own.Number == 0 || r.IntN(3) > 0 {
		c.minted++
		*own = tok(c.minted, fmt.Sprint(writer))
	}
	mine := *own
	if r.IntN(20) == 0 {
		mine = tok(c.minted, "another") // a collision, where that is taken
	}
	id := len(c.attempts)
	c.attempts = append(c.attempts, errTried)
	c.mu.Unlock()

	ctx, cancel := context.WithCancel(token.NewContext(ctx, mine))
	defer cancel()
	if r.IntN(3) == 0 {
		timer := time.AfterFunc(time.Duration(r.IntN(20_000))*time.Microsecond, cancel)
		defer timer.Stop()
	}
	rollback, padding := r.IntN(8) == 0, strings.Repeat("x", 1+r.IntN(2000))
	err := db.guard().Update(ctx, account, func(tx *sql.Tx) error {
		balance, err := read(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO attempts (id, number, padding) VALUES (?, ?, ?)", id, mine.Number, padding); err != nil {
			return err
		}
		if err := write(ctx, tx, balance+1); err != nil {
			return err
		}
		if rollback {
			return errRolledBack
		}
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempts[id] = err
}

// closed checks that no connection of the pool has an open transaction.
func (c *contention) closed(t *testing.T, db *database) {
	t.Helper()
	require.Zero(t, db.Stats().InUse)
	var conns []*sql.Conn
	for range db.Stats().OpenConnections {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		require.ErrorContains(t, err, "no transaction is active")
		require.NoError(t, conn.Close())
	}
}

// compare compares the outcomes with the rows.
func (c *contention) compare(t *testing.T) {
	t.Helper()
	db := onSQLite(t, c.file, longBusyTimeout)
	there := attempts(t, db)
	outcomes := map[string]int{}
	for i, err := range c.attempts {
		id := fmt.Sprint(i)
		switch {
		case err == nil:
			outcomes["applied"]++
			require.Equal(t, 1, there[id], "it was acknowledged")
		case errors.Is(err, guard.ErrUnknown):
			outcomes["unknown: "+err.Error()]++
			require.LessOrEqual(t, there[id], 1)
		default:
			outcomes[kindOf(t, err)]++
			require.Zero(t, there[id], "%v left something", err)
		}
	}
	t.Log(outcomes)
	ctx := holding(t, c.minted+1, "the last")
	require.NoError(t, db.update(ctx, add(ctx, 1)), "nothing is in the way")
}

// attempts returns how often each id is in the table. It compares the rows with their
// order, the sum and the mark.
func attempts(t *testing.T, db *database) map[string]int {
	t.Helper()
	require.Equal(t, "ok", one[string](t, db, "PRAGMA integrity_check"))
	rows, err := db.QueryContext(t.Context(), "SELECT id, number FROM attempts ORDER BY seq")
	require.NoError(t, err)
	defer rows.Close()
	there, last := map[string]int{}, int64(0)
	for rows.Next() {
		var id string
		var number int64
		require.NoError(t, rows.Scan(&id, &number))
		there[id]++
		require.GreaterOrEqual(t, number, last, "a stale write was accepted")
		last = number
	}
	require.NoError(t, rows.Err())
	require.Equal(t, len(there), balance(t, db), "each is in the sum")
	require.GreaterOrEqual(t, db.mark(t, account).Number, last, "the mark is that of the last")
	return there
}

func kindOf(t *testing.T, err error) string {
	t.Helper()
	for _, kind := range []error{guard.ErrStale, guard.ErrCollision, guard.ErrRetryable, errRolledBack, context.Canceled} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if strings.Contains(err.Error(), "disk is full") || strings.Contains(err.Error(), "interrupted") {
		return err.Error()
	}
	t.Errorf("unexpected: %v", err)
	return err.Error()
}
