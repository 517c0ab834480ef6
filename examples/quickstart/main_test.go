//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// runVariable makes the test binary run a program in place of the tests.
const runVariable = "QUICKSTART_RUN"

func TestMain(m *testing.M) {
	switch os.Getenv(runVariable) {
	case "main": // the README's program
		main()
	case "unguarded":
		unguarded()
	default:
		os.Exit(m.Run())
	}
}

// Two processes run the README's program. The first is stopped with SIGSTOP while it
// holds the lock, and resumes after the second has written.
func TestThePausedProcessIsRefusedAsTheReadmeSays(t *testing.T) {
	t.Parallel()
	body, stderr, err := pauseTheFirstOfTwo(t, "main")
	require.Error(t, err)
	require.Equal(t, "second", body)

	readme, readErr := os.ReadFile("../../README.md")
	require.NoError(t, readErr)
	require.True(t, strings.Contains(string(readme), "\n```\n"+normal(stderr)+"```\n"), "the README does not show:\n%s", normal(stderr))
}

// The twin writes over the pool. Its lock is the same.
func TestWithoutTheGuardThePausedProcessOverwritesItsSuccessor(t *testing.T) {
	t.Parallel()
	body, _, _ := pauseTheFirstOfTwo(t, "unguarded")
	require.Equal(t, "first", body)
}

// unguarded is main, but for the statement.
func unguarded() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	check(migrations.Set{}.Up(ctx, stdlib.OpenDBFromPool(pool)))
	_, err = pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS reports (id int PRIMARY KEY, body text)")
	check(err)

	fence := &sqlguard.Guard{DB: pool}
	locks := &lock.Locker{Issuer: &pgtoken.Issuer{DB: pool}, Claim: fence.Admit}
	check(locks.Hold(ctx, "report/1", func(context.Context) error {
		var word string
		fmt.Print("report/1 is locked. New text: ")
		_, _ = fmt.Scanln(&word)
		// The lease's context may have ended. A program without a guard may detect that too late.
		_, err := pool.Exec(ctx, "INSERT INTO reports VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET body = $1", word)
		return err
	}))
}

// pauseTheFirstOfTwo returns the text that is in the database at the end, and what the
// first process has printed to standard error and returned.
func pauseTheFirstOfTwo(t *testing.T, program string) (body, stderr string, err error) {
	t.Helper()
	url := testenv.Database(t) // of this test: the program uses the default schema
	first := start(t, program, url)
	first.awaitPrompt(t)
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGSTOP))
	second := start(t, program, url)
	second.awaitPrompt(t) // the lease of the first has ended
	second.enter(t, "second")
	err = second.cmd.Wait()
	require.NoError(t, err, second.stderr.String())

	first.enter(t, "first")
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGCONT))
	err = first.cmd.Wait()
	body = pgtest.Query[string](t, pgtest.Pool(t, url, nil), "SELECT body FROM reports WHERE id = 1")
	return body, first.stderr.String(), err
}

// normal replaces what differs from run to run: the date, the numbers, and the holder.
func normal(stderr string) string {
	stderr = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `).ReplaceAllString(stderr, "2026/11/24 10:00:00 ")
	stderr = regexp.MustCompile(`#\d+ of \S+`).ReplaceAllString(stderr, "# of web-1:4711/quickstart:1:c2f1a0b3d4e59687")
	stderr = regexp.MustCompile(`#\d+`).ReplaceAllString(stderr, "#179516977481431")
	stderr = strings.ReplaceAll(stderr, "# of", "#179516978493117 of")
	return regexp.MustCompile(` lost: .*`).ReplaceAllString(stderr, " lost") // the issuer's last reply, if there was one
}

// process is one run of the README's program.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Writer
	stdout *bufio.Reader
	stderr bytes.Buffer
}

func start(t *testing.T, program, url string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), runVariable+"="+program, "DATABASE_URL="+url)
	p.cmd.Stderr = &p.stderr
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.stdin, p.stdout = stdin, bufio.NewReader(stdout)
	require.NoError(t, p.cmd.Start())
	return p
}

// awaitPrompt returns when the process holds the lock.
func (p *process) awaitPrompt(t *testing.T) {
	t.Helper()
	prompt, err := p.stdout.ReadString(':')
	if err != nil {
		_ = p.cmd.Wait() // until then its standard error is still written to
		t.Fatalf("%v: %s", err, p.stderr.String())
	}
	require.True(t, strings.HasPrefix(prompt, "report/1 is locked"), prompt)
}

func (p *process) enter(t *testing.T, word string) {
	t.Helper()
	_, err := fmt.Fprintln(p.stdin, word)
	require.NoError(t, err)
}
