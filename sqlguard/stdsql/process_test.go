package stdsql_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

const (
	childRole    = "STDSQL_TEST_CHILD"
	childDriver  = "STDSQL_TEST_DRIVER"
	childDSN     = "STDSQL_TEST_DSN"
	childDialect = "STDSQL_TEST_DIALECT"
	childSchema  = "STDSQL_TEST_SCHEMA"
)

// The child reads token numbers, one per line, and replies to each with the result of a
// write under it: "applied", "stale", or the error. If "inside" precedes a number, it
// waits inside the transaction for another line.
type process struct {
	in  io.Writer
	out *bufio.Scanner
}

func child(string) int {
	db, err := sql.Open(os.Getenv(childDriver), os.Getenv(childDSN))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer db.Close()
	dialect, _ := strconv.Atoi(os.Getenv(childDialect))
	g := &stdsql.Guard{DB: db, Dialect: stdsql.Dialect(dialect), Schema: os.Getenv(childSchema), IdleTimeout: idle}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text, wait := strings.CutPrefix(lines.Text(), "hold ")
		number, _ := strconv.ParseInt(text, 10, 64)
		tok := token.Token{Resource: account, Number: number, Holder: "child"}
		ctx := token.NewContext(context.Background(), tok)
		err := g.Update(ctx, account, func(tx *sql.Tx) error {
			if wait {
				fmt.Println("holding")
				lines.Scan()
			}
			return add(ctx, 1)(tx)
		})
		fmt.Println(answer(err))
	}
	return 0
}

func answer(err error) string {
	switch {
	case err == nil:
		return "applied"
	case errors.Is(err, guard.ErrStale):
		return "stale"
	case errors.Is(err, guard.ErrRetryable):
		return "retryable"
	}
	return err.Error()
}

func startChild(t *testing.T, db *database) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childRole+"=writer", childDriver+"="+db.driver, childDSN+"="+db.dsn,
		childDialect+"="+strconv.Itoa(int(db.dialect)), childSchema+"="+db.schema)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		require.NoError(t, cmd.Wait())
	})
	return &process{in: in, out: bufio.NewScanner(out)}
}

// send panics if the child has exited, since it is called on other goroutines.
func (p *process) send(line string) string {
	if _, err := fmt.Fprintln(p.in, line); err != nil || !p.out.Scan() {
		panic("the child is gone")
	}
	return p.out.Text()
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
				if p.send(strconv.Itoa(100+2*i)) == "applied" {
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
		require.Equal(t, "stale", p.send("99"))
		require.Equal(t, "applied", p.send("1000"))
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

	require.Equal(t, "holding", p.send("hold 33"))
	for range 3 {
		require.ErrorIs(t, db.update(ctx, add(ctx, 10)), guard.ErrRetryable)
	}
	require.Equal(t, "applied", p.send("go on"), "no writer came between: it is in order")
	require.NoError(t, db.update(ctx, add(ctx, 10)))
	require.Equal(t, 111, balance(t, db))
	require.Equal(t, "stale", p.send("33"))
}

const (
	roleKilled = "killed"
	// envKills sets how often a process is killed under each of the settings.
	envKills = "FENCEPOST_SQLITE_KILLS"
)

// killed writes until it is killed. It prints each attempt before it starts and the
// result of Update after it.
func killed() int {
	db, err := sql.Open("sqlite", os.Getenv(childDSN))
	if err != nil {
		return 1
	}
	defer db.Close()
	g := &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}
	for n := 0; ; n++ {
		mine := tok(time.Now().UnixMicro()/10-rand.Int64N(500), fmt.Sprint(os.Getpid()))
		id := fmt.Sprint(os.Getpid(), ".", n)
		ctx := token.NewContext(context.Background(), mine)
		fmt.Println("tries", id)
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
		switch {
		case err == nil:
			fmt.Println("applied", id)
		case errors.Is(err, guard.ErrUnknown):
			fmt.Println("unknown", id)
		default:
			fmt.Println("refused", id, err)
		}
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
			outcomes := map[string]string{}
			for n := 0; n < kills; n += 2 {
				var both sync.WaitGroup
				var mu sync.Mutex
				for i := range 2 {
					both.Go(func() {
						said := killedSoon(t, dsn(file, settings), i == 0)
						mu.Lock()
						defer mu.Unlock()
						for id, what := range said {
							outcomes[id] = what
						}
					})
				}
				both.Wait()
				compareKilled(t, db, outcomes)
			}
			counts := map[string]int{}
			for _, what := range outcomes {
				counts[strings.SplitN(what, " ", 2)[0]]++
			}
			t.Logf("%d kills: %v", kills, counts)
			require.NotZero(t, counts["applied"])
		})
	}
}

// killedSoon lets a process write, kills it, and returns its last output about each
// attempt. applied selects a kill after the first applied write; otherwise it may be
// killed in its first write.
func killedSoon(t *testing.T, dsn string, applied bool) map[string]string {
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return nil
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childRole+"="+roleKilled, childDSN+"="+dsn)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	outcomes := map[string]string{}
	lines := bufio.NewReader(out)
	after := rand.IntN(60)
	for n := 0; ; {
		line, err := lines.ReadString('\n')
		if what, id, ok := strings.Cut(strings.TrimSpace(line), " "); ok && err == nil {
			id, why, _ := strings.Cut(id, " ")
			outcomes[id] = what + " " + why
		}
		if err == io.EOF {
			break
		}
		if applied = applied && !strings.HasPrefix(line, "applied "); applied {
			continue
		}
		if n++; n == after+1 {
			go func() { time.Sleep(rand.N(3 * time.Millisecond)); _ = cmd.Process.Kill() }()
		}
	}
	_ = cmd.Wait() // its error is that it was killed
	return outcomes
}

// compareKilled compares the output with the rows.
func compareKilled(t *testing.T, db *database, outcomes map[string]string) {
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
	for id, what := range outcomes {
		switch {
		case strings.HasPrefix(what, "applied"):
			require.Equal(t, 1, there[id], "it was acknowledged")
		case strings.HasPrefix(what, "refused"):
			require.Zero(t, there[id], what)
		default:
			require.LessOrEqual(t, there[id], 1)
		}
	}
	require.Equal(t, len(there), balance(t, db), "each is in the sum")
	require.GreaterOrEqual(t, db.mark(t, account).Number, last)
}
