package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// breaks returns the statements of docs/locks.md that break a lock: those that match, in
// their order.
func breaks(t *testing.T, pattern string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/locks.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## A holder that hangs\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	return regexp.MustCompile(pattern).FindAllString(section, -1)
}

// A paused holder: it does not renew, and does not know that its lock was broken.
func TestBreakOfALockInPostgres(t *testing.T) {
	t.Parallel()
	url := testenv.Database(t)
	require.Zero(t, execute(t, "migrate", "up", "--postgres", url).status)
	pool := pgtest.Pool(t, url, nil)
	for _, sql := range []string{"CREATE TABLE accounts (id bigint PRIMARY KEY, balance int)", "INSERT INTO accounts VALUES (42, 100)", "SELECT fencepost.add_mark_columns('accounts')"} {
		pgtest.Exec(t, pool, sql)
	}
	fence, iss := &sqlguard.Guard{DB: pool}, &pgtoken.Issuer{DB: pool}
	t.Cleanup(func() { require.NoError(t, iss.Close()) })
	row := &rowguard.Table{Guard: fence, Name: pgx.Identifier{"accounts"}, Prefix: "account/"}
	write := func(tok token.Token) error {
		_, err := fence.On(pgtest.Resource).Exec(token.NewContext(t.Context(), tok), "UPDATE accounts SET balance = balance + 1 WHERE id = 42")
		return err
	}
	writeRow := func(tok token.Token) error {
		return row.Update(token.NewContext(t.Context(), tok), 42, rowguard.Set{"balance": 1})
	}
	raise := breaks(t, `SELECT fencepost.(mint|evict)[^;]*|UPDATE accounts [^;]*`)
	end := breaks(t, "SELECT (holder FROM fencepost.leases|fencepost.release)[^`]*")
	require.Len(t, raise, 3)
	require.Len(t, end, 2)
	names := map[string]string{"resource": pgtest.Resource, "id": "42"}
	for i := range raise {
		raise[i] = inPsql(raise[i], names)
	}
	release := func() {
		t.Helper()
		holder, found := strings.CutSuffix(inPsql(end[0], names), ` \gset`)
		require.True(t, found)
		names["holder"] = pgtest.Query[string](t, pool, holder)
		require.True(t, pgtest.Query[bool](t, pool, inPsql(end[1], names)))
	}

	// The twin: without the first step, the old holder writes on.
	a := pgtest.Acquire(t, iss, "a")
	require.NoError(t, fence.Admit(t.Context(), a))
	release()
	require.NoError(t, write(a))
	require.NoError(t, writeRow(a))

	a = pgtest.Acquire(t, iss, "a again")
	require.NoError(t, fence.Admit(t.Context(), a))
	require.NoError(t, writeRow(a))
	waiting := pgtest.Go(func() (token.Grant, error) { return iss.Wait(t.Context(), pgtest.Resource, "b", pgtest.Long) })
	inside, resume := make(chan struct{}), make(chan struct{})
	paused := pgtest.Later(t, func() error {
		return fence.Update(token.NewContext(t.Context(), a), pgtest.Resource, func(pgx.Tx) error {
			close(inside)
			<-resume
			return nil
		})
	})
	<-inside
	var server *pgconn.PgError
	_, err := pool.Exec(t.Context(), strings.Replace(raise[0], "10000", "10", 1))
	require.ErrorAs(t, err, &server)
	require.Equal(t, "55P03", server.Code)
	require.Equal(t, 1, pgtest.Query[int](t, pool, raise[1]))
	pgtest.Exec(t, pool, raise[0])
	close(resume)
	require.ErrorIs(t, paused(), guard.ErrEvicted)
	require.ErrorIs(t, write(a), guard.ErrStale)
	pgtest.Exec(t, pool, raise[2])
	require.ErrorIs(t, writeRow(a), guard.ErrStale)

	release()
	b := pgtest.Granted(t, waiting)
	_, err = iss.Renew(t.Context(), a, pgtest.Long)
	require.ErrorIs(t, err, token.ErrLost)
	require.NoError(t, fence.Admit(t.Context(), b))
	require.NoError(t, write(b))
	require.NoError(t, writeRow(b))
}

func TestBreakOfALockInRedis(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	fence, iss := &redisguard.Guard{Client: server.Client()}, &redistoken.Issuer{Client: server.Client()}
	t.Cleanup(func() { require.NoError(t, iss.Close()) })
	write := func(tok token.Token) error {
		return fence.Set(token.NewContext(t.Context(), tok), pgtest.Resource, "{account/42}", tok.Holder, 0)
	}
	_, port, _ := strings.Cut(server.Addr(), ":")
	run := func(line string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line, "redis-cli", "redis-cli -p "+port, 1)).Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	raise := breaks(t, `(?s)redis-cli EVAL .*?'fencepost:mark[^']*'`)
	end := breaks(t, `redis-cli (--scan [^`+"`"+`]*:lock:[^`+"`"+`]*|(GET|DEL) KEY)`)
	require.Len(t, raise, 1)
	require.Len(t, end, 3)
	release := func(holder string) {
		t.Helper()
		key := run(end[0])
		require.Equal(t, holder, run(strings.Replace(end[1], "KEY", "'"+key+"'", 1)))
		require.Equal(t, "1", run(strings.Replace(end[2], "KEY", "'"+key+"'", 1)))
	}

	a := pgtest.Acquire(t, iss, "a") // the twin
	require.NoError(t, fence.Admit(t.Context(), a))
	release("a")
	require.NoError(t, write(a))

	a = pgtest.Acquire(t, iss, "a again")
	require.NoError(t, fence.Admit(t.Context(), a))
	require.Equal(t, "OK", run(raise[0]))
	require.ErrorIs(t, write(a), guard.ErrStale)
	release("a again")
	_, err := iss.Renew(t.Context(), a, pgtest.Long)
	require.ErrorIs(t, err, token.ErrLost)
	b := pgtest.Acquire(t, iss, "b")
	require.NoError(t, fence.Admit(t.Context(), b))
	require.NoError(t, write(b))
}

func TestBreakOfALockInMySQL(t *testing.T) {
	t.Parallel()
	const resource = `account/o'neil "42" \`
	m := newMarkedMySQL(t)
	fence := &stdsql.Guard{DB: m.DB, Dialect: stdsql.MySQL}
	minted, err := fence.Mint(t.Context(), resource, "a")
	require.NoError(t, err)
	a, err := token.FromContext(minted, resource)
	require.NoError(t, err)
	require.NoError(t, fence.Admit(t.Context(), a))
	line := breaks(t, `(?s)mysql shop -e "UPDATE [^`+"`"+`]*`)
	require.Len(t, line, 1)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line[0], "mysql shop -e", "printf %s", 1))
	cmd.Env = append(os.Environ(), "resource="+resource)
	statement, err := cmd.Output()
	require.NoError(t, err)
	_, err = m.ExecContext(t.Context(), string(statement))
	require.NoError(t, err)
	require.ErrorIs(t, fence.Admit(t.Context(), a), guard.ErrStale)
	minted, err = fence.Mint(t.Context(), resource, "b")
	require.NoError(t, err)
	b, err := token.FromContext(minted, resource)
	require.NoError(t, err)
	require.NoError(t, fence.Admit(t.Context(), b))
}
