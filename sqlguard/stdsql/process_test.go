package stdsql_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
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

// The child reads the numbers of tokens, one a line, and answers each with
// what became of a write under it: "applied", "stale", or the error.
// Before a number, "inside" makes it wait inside the transaction for another
// line.
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
	g := &stdsql.Guard{DB: db, Dialect: stdsql.Dialect(dialect), Schema: os.Getenv(childSchema)}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text, wait := strings.CutPrefix(lines.Text(), "inside ")
		number, _ := strconv.ParseInt(text, 10, 64)
		tok := token.Token{Resource: account, Number: number, Holder: "child"}
		ctx := token.NewContext(context.Background(), tok)
		err := g.Update(ctx, account, func(tx *sql.Tx) error {
			if wait {
				fmt.Println("inside")
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

// ask panics when the child is gone, since it is called on other goroutines.
func (p *process) ask(line string) string {
	if _, err := fmt.Fprintln(p.in, line); err != nil || !p.out.Scan() {
		panic("the child is gone")
	}
	return p.out.Text()
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		const writes = 200
		p := startChild(t, db)
		start := balance(t, db)
		result := make(chan int)
		go func() {
			applied := 0
			for i := range writes {
				if p.ask(strconv.Itoa(100+2*i)) == "applied" {
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
		require.Equal(t, "stale", p.ask("99"))
		require.Equal(t, "applied", p.ask("1000"))
		ctx := holding(t, 999, "parent")
		require.ErrorIs(t, db.update(ctx, add(ctx, 1)), guard.ErrStale)
	})
}

// What SQLite cannot do: nobody can end the transaction of another process.
func TestSQLiteAProcessThatIsStoppedInsideATransaction(t *testing.T) {
	t.Parallel()
	file := newFile(t, wal)
	db, p := onSQLite(t, file, hasty), startChild(t, onSQLite(t, file, patient))
	ctx := holding(t, 34, "parent")

	require.Equal(t, "inside", p.ask("inside 33"))
	for range 3 {
		require.ErrorIs(t, db.update(ctx, add(ctx, 10)), guard.ErrRetryable)
	}
	require.Equal(t, "applied", p.ask("go on"), "nobody came between: it is in order")
	require.NoError(t, db.update(ctx, add(ctx, 10)))
	require.Equal(t, 111, balance(t, db))
	require.Equal(t, "stale", p.ask("33"))
}
