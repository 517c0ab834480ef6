package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// The roles of child processes.
const (
	roleOrdered = "ordered" // writes as ordered, and reports each answer
	roleKilled  = "killed"  // writes until it is killed, and reports each attempt
)

var roles = map[string]func(*subprocess.Parent) error{roleOrdered: ordered, roleKilled: killed}

// setup is the database of a child.
type setup struct {
	Driver, DSN string
	Dialect     stdsql.Dialect
	Schema      string
}

func (db *database) setup() setup { return setup{db.driver, db.dsn, db.dialect, db.schema} }

// opened returns the guard of a child, which receives its setup.
func opened(parent *subprocess.Parent) (*stdsql.Guard, error) {
	var s setup
	if err := parent.Receive(&s); err != nil {
		return nil, err
	}
	db, err := sql.Open(s.Driver, s.DSN)
	return &stdsql.Guard{DB: db, Dialect: s.Dialect, Schema: s.Schema, IdleTimeout: idle}, err
}

// order is one write under a token with the number. With Hold, the child reports "holding"
// inside the transaction, and waits there for another order, whose content it ignores.
type order struct {
	Number int64
	Hold   bool
}

func ordered(parent *subprocess.Parent) error {
	g, err := opened(parent)
	if err != nil {
		return err
	}
	defer g.DB.Close()
	parent.Report("ready")
	return subprocess.Each(parent, func(o order) error {
		ctx := token.NewContext(context.Background(), tok(o.Number, "child"))
		parent.Report(answer(g.Update(ctx, account, func(tx *sql.Tx) error {
			if o.Hold {
				parent.Report("holding")
				if err := parent.Receive(&order{}); err != nil {
					return err
				}
			}
			return add(ctx, 1)(tx)
		})))
		return nil
	})
}

func answer(err error) string {
	switch {
	case err == nil:
		return "applied"
	case errors.Is(err, guard.ErrStale):
		return "stale"
	case errors.Is(err, guard.ErrRetryable):
		return "retryable"
	case errors.Is(err, guard.ErrUnknown):
		return "unknown"
	}
	return err.Error()
}

// child is a process that writes as ordered.
type child struct{ *subprocess.Process[string] }

func startChild(t *testing.T, db *database) child {
	t.Helper()
	c, err := subprocess.Self("child", roleOrdered)
	require.NoError(t, err)
	p, _, err := subprocess.Open[string](t.Context(), c, db.setup())
	require.NoError(t, err)
	t.Cleanup(func() {
		p.CloseInput()
		assert.NoError(t, p.Listen(func(string) {}))
		p.End(t.Context())
	})
	return child{p}
}

// write returns the child's answer, or why it has none.
func (c child) write(ctx context.Context, o order) string {
	said, err := c.Ask(ctx, o)
	if err != nil {
		return err.Error()
	}
	return said
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		const writes = 50
		p := startChild(t, db)
		start := balance(t, db)
		result := make(chan int)
		go func() {
			applied := 0
			for i := range writes {
				if p.write(t.Context(), order{Number: int64(100 + 2*i)}) == "applied" {
					applied++
				}
			}
			result <- applied
		}()
		applied := 0
		for i := range writes {
			ctx := holding(t, int64(101+2*i), "parent")
			switch err := db.update(ctx, add(ctx, 1)); answer(err) {
			case "applied":
				applied++
			case "retryable":
			default:
				require.ErrorIs(t, err, guard.ErrStale)
			}
		}
		applied += <-result
		require.Equal(t, start+applied, balance(t, db), "what was acknowledged must be there, no more and no less")
		require.Equal(t, "stale", p.write(t.Context(), order{Number: 99}))
		require.Equal(t, "applied", p.write(t.Context(), order{Number: 1000}))
		ctx := holding(t, 999, "parent")
		require.ErrorIs(t, db.update(ctx, add(ctx, 1)), guard.ErrStale)
	})
}

// On SQLite no process can end another's transaction.
func TestSQLiteAProcessThatIsStoppedInsideATransaction(t *testing.T) {
	t.Parallel()
	file := newFile(t, wal)
	db, p := onSQLite(t, file, noBusyTimeout), startChild(t, onSQLite(t, file, longBusyTimeout))
	ctx := holding(t, 34, "parent")

	require.Equal(t, "holding", p.write(t.Context(), order{Number: 33, Hold: true}))
	for range 3 {
		require.ErrorIs(t, db.update(ctx, add(ctx, 10)), guard.ErrRetryable)
	}
	require.Equal(t, "applied", p.write(t.Context(), order{}), "no writer came between: it is in order")
	require.NoError(t, db.update(ctx, add(ctx, 10)))
	require.Equal(t, 111, balance(t, db))
	require.Equal(t, "stale", p.write(t.Context(), order{Number: 33}))
}

// envKills sets how often a process is killed under each of the settings.
const envKills = "FENCEPOST_SQLITE_KILLS"

// attempt is a report of a process that will be killed: before a write with no answer, and
// after it with the answer.
type attempt struct{ ID, Answer string }

func killed(parent *subprocess.Parent) error {
	g, err := opened(parent)
	if err != nil {
		return err
	}
	defer g.DB.Close()
	for n := 0; ; n++ {
		mine := tok(time.Now().UnixMicro()/10-rand.Int64N(500), fmt.Sprint(os.Getpid()))
		id := fmt.Sprint(os.Getpid(), ".", n)
		ctx := token.NewContext(context.Background(), mine)
		parent.Report(attempt{ID: id})
		err := g.Update(ctx, account, func(tx *sql.Tx) error {
			balance, err := read(ctx, tx)
			if err != nil {
				return err
			}
			padding := strings.Repeat("x", rand.IntN(20_000)) // some pages
			if _, err := tx.ExecContext(ctx, "INSERT INTO attempts (id, number, padding) VALUES (?, ?, ?)", id, mine.Number, padding); err != nil {
				return err
			}
			return write(ctx, tx, balance+1)
		})
		parent.Report(attempt{id, answer(err)})
	}
}

func TestProcessesThatAreKilledWhileTheyWrite(t *testing.T) { killedWhileTheyWrite(t, 2) }
func TestStressProcessesThatAreKilledWhileTheyWrite(t *testing.T) {
	killedWhileTheyWrite(t, testenv.Rounds(t, envKills, 6))
}

func killedWhileTheyWrite(t *testing.T, kills int) {
	t.Parallel()
	for name, settings := range map[string]string{
		"wal": wal + "&" + longBusyTimeout, "delete": rollback + "&" + longBusyTimeout,
		"truncate, immediate":  "_pragma=journal_mode(TRUNCATE)&_pragma=synchronous(OFF)&_txlock=immediate&" + longBusyTimeout,
		"wal, no busy timeout": wal + "&" + noBusyTimeout,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := newFile(t, settings)
			db := onSQLite(t, file, longBusyTimeout)
			run(t, db, "CREATE TABLE attempts (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, number BIGINT, padding TEXT)")
			run(t, db, "UPDATE accounts SET balance = 0")
			answers := map[string]string{}
			for n := 0; n < kills; n += 2 {
				var both sync.WaitGroup
				var mu sync.Mutex
				for i := range 2 {
					both.Go(func() {
						given := killedSoon(t, dsn(file, settings), i == 0)
						mu.Lock()
						defer mu.Unlock()
						maps.Copy(answers, given)
					})
				}
				both.Wait()
				compareKilled(t, db, answers)
			}
			counts := map[string]int{}
			for _, answer := range answers {
				counts[answer]++
			}
			t.Logf("%d kills: %v", kills, counts)
			require.NotZero(t, counts["applied"])
		})
	}
}

// killedSoon lets a process write, kills it, and returns its answer to each attempt, "" if
// it was killed before. applied selects a kill after the first applied write; otherwise it
// may be killed in its first write.
func killedSoon(t *testing.T, dsn string, applied bool) map[string]string {
	c, err := subprocess.Self("child", roleKilled)
	if !assert.NoError(t, err) {
		return nil
	}
	p, err := subprocess.Start[attempt](c)
	if !assert.NoError(t, err) {
		return nil
	}
	defer p.End(t.Context())
	assert.NoError(t, p.Send(setup{Driver: "sqlite", DSN: dsn, Dialect: stdsql.SQLite}))
	answers := map[string]string{}
	after, n := rand.IntN(60), 0
	assert.Error(t, p.Listen(func(a attempt) {
		answers[a.ID] = a.Answer
		if applied = applied && a.Answer != "applied"; applied {
			return
		}
		if n++; n == after+1 {
			go func() { time.Sleep(rand.N(3 * time.Millisecond)); p.Kill() }()
		}
	}), "it was killed")
	return answers
}

// compareKilled compares the answers with the rows.
func compareKilled(t *testing.T, db *database, answers map[string]string) {
	t.Helper()
	there := attempts(t, db)
	for id, answer := range answers {
		switch answer {
		case "applied":
			require.Equal(t, 1, there[id], "it was acknowledged")
		case "", "unknown":
			require.LessOrEqual(t, there[id], 1)
		default:
			require.Zero(t, there[id], answer)
		}
	}
}
