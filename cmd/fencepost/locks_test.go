package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/etcdtoken"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// issuer is what the issuers of the command are.
type issuer interface {
	token.Issuer
	token.QueueIssuer
	token.Recoverer
}

// locked is a server with locks, and a guard on PostgreSQL and one on Redis.
type locked struct {
	*testing.T
	issuer
	flags    []string // of the locks
	resource string
	pool     *pgxpool.Pool
	schema   string
	marks    *sqlguard.Guard
	redis    *redisguard.Guard
	table    *rowguard.Table // has the row of resource
	forget   func()          // the issuer forgets all numbers
}

// onEachLock runs a test with locks on each server.
func onEachLock(t *testing.T, test func(l *locked)) {
	t.Parallel()
	for _, server := range []string{"redis", "postgres", "etcd"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			test(newLocked(t, server))
		})
	}
}

func newLocked(t *testing.T, server string) *locked {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	client, prefix := testenv.Redis(t)
	l := &locked{T: t, pool: pool, schema: schema, resource: prefix + "/42", flags: []string{"--schema", schema}}
	switch server {
	case "etcd":
		url := testenv.OwnEtcd(t).URL()
		l.issuer = etcdtoken.New(etcdtoken.Config{Endpoints: []string{url}, Prefix: prefix + "/"})
		l.forget = func() { postEtcd(t, url+"/v3/kv/deleterange", `{"key": "AA==", "range_end": "AA=="}`) } // all keys
		l.flags = append(l.flags, "--etcd", url, "--key-prefix", prefix)
	case "redis":
		iss := &redistoken.Issuer{Client: client, Prefix: prefix}
		t.Cleanup(func() { require.NoError(t, iss.Close()) })
		l.issuer, l.flags = iss, append(l.flags, "--redis", testenv.RedisURL(t), "--key-prefix", prefix)
		l.forget = func() {
			counters, err := client.Keys(t.Context(), prefix+":{*}:counter").Result()
			require.NoError(t, err)
			require.Len(t, counters, 1)
			require.NoError(t, client.Del(t.Context(), counters...).Err())
		}
	default:
		iss := &pgtoken.Issuer{DB: pool, Schema: schema}
		t.Cleanup(func() { require.NoError(t, iss.Close()) })
		l.issuer, l.flags = iss, append(l.flags, "--postgres", testenv.PostgresURL(t))
		l.forget = func() { pgtest.Exec(t, pool, "UPDATE "+pgtest.In(schema, "leases")+" SET number = 1") }
	}
	l.marks, l.redis = &sqlguard.Guard{DB: pool, Schema: schema}, &redisguard.Guard{Client: client}
	pgtest.Accounts(t, pool, schema, 42)
	pgtest.Exec(t, pool, "SELECT "+pgtest.In(schema, "add_mark_columns")+"('"+schema+".accounts')")
	l.table = &rowguard.Table{Guard: l.marks, Name: pgx.Identifier{schema, "accounts"}, Prefix: prefix + "/"}
	return l
}

func (l *locked) acquire(holder string) token.Token {
	l.Helper()
	grant, err := l.Acquire(l.Context(), l.resource, holder, pgtest.Long)
	require.NoError(l, err)
	return grant.Token
}

// queue makes holder wait for the lock, and returns when it does.
func (l *locked) queue(holder string) <-chan pgtest.Answer {
	l.Helper()
	waiting := pgtest.Go(func() (token.Grant, error) { return l.Wait(l.Context(), l.resource, holder, pgtest.Long) })
	pgtest.Await(l.T, func() bool { return strings.Contains(l.run("show", l.resource).out, holder) })
	return waiting
}

func (l *locked) run(args ...string) finished {
	l.Helper()
	return execute(l.T, append(append([]string{"locks"}, l.flags...), args...)...)
}

// breaks runs fencepost locks break. Both guards and the row are named.
func (l *locked) breaks(holder string, args ...string) finished {
	l.Helper()
	url := strings.Replace(testenv.PostgresURL(l.T), "postgres@", "postgres:sekret@", 1) // the server asks for none
	return l.run(append([]string{"break", l.resource, "--holder", holder, "--wait", "10ms", "--guard", url,
		"--guard", testenv.RedisURL(l.T), "--row", l.schema + ".accounts.id=42"}, args...)...)
}

// writes tries to write through each guard.
func (l *locked) writes(tok token.Token) (errs []error) {
	ctx := token.NewContext(l.Context(), tok)
	_, err := l.marks.On(l.resource).Exec(ctx, "UPDATE "+l.table.Name.Sanitize()+" SET balance = balance + 1")
	return []error{err, l.table.Update(ctx, 42, rowguard.Set{"balance": 1}), l.redis.Set(ctx, l.resource, "{"+l.resource+"}", tok.Holder, 0)}
}

func (l *locked) requireAll(tok token.Token, expected error) {
	l.Helper()
	for n, err := range l.writes(tok) {
		require.ErrorIs(l, err, expected, "guard %d", n)
	}
}

func (l *locked) claim(tok token.Token) {
	l.Helper()
	require.NoError(l, l.table.Admit(l.Context(), tok))
	require.NoError(l, l.redis.Admit(l.Context(), tok))
}

// number is the issuer's last number.
func (l *locked) number() (n int64) {
	l.Helper()
	n, err := strconv.ParseInt(objects(l.T, l.run("show", "--json", l.resource).out)[0]["number"].(string), 10, 64)
	require.NoError(l, err)
	return n
}

func (l *locked) requireHeldBy(tok token.Token) {
	l.Helper()
	_, err := l.Renew(l.Context(), tok, pgtest.Long)
	require.NoError(l, err)
}

func TestLocksListAndShow(t *testing.T) {
	onEachLock(t, func(l *locked) {
		a := l.acquire("web-1:1/report:1:a")
		waiting := l.queue("web-2:2/report:1:b")
		other, err := l.Acquire(l.Context(), l.resource+"/other", "c", pgtest.Long)
		require.NoError(l, err)

		done := l.run("show", l.resource)
		require.Zero(l, done.status, done.err)
		require.Regexp(l, `^`+l.resource+`

  holder    web-1:1/report:1:a
  number    \d+
  since     about \S+Z, \S+ ago, or earlier
  ends in   (10m0s|9m\S+s), unless it is renewed
  waiter 1  web-2:2/report:1:b
$`, done.out)
		require.Contains(l, l.run("show", other.Token.Resource).out, "  waiters  none\n")
		object := objects(l.T, l.run("show", "--json", l.resource).out)[0]
		require.Equal(l, "web-1:1/report:1:a", object["holder"])
		require.Equal(l, []any{"web-2:2/report:1:b"}, object["waiters"])
		require.Greater(l, object["remaining_seconds"], 500.0)
		require.GreaterOrEqual(l, l.number(), a.Number)
		wrong, n := otherTimes(fmt.Sprint(object["since"]))
		require.Empty(l, wrong)
		require.Equal(l, 1, n)

		done = l.run("list")
		require.Zero(l, done.status, done.err)
		require.Regexp(l, `(?m)^  `+l.resource+` +web-1:1/report:1:a +\d+ +\S+Z +\S+ +1$`, done.out)
		require.Regexp(l, `(?m)^  `+l.resource+`/other +c +\d+ +\S+Z +\S+ +0$`, done.out)
		require.True(l, strings.HasSuffix(done.out, "\n2 locks\n"), done.out)
		require.Len(l, objects(l.T, l.run("list", "--json", "--prefix", l.resource+"/o").out), 1)

		require.NoError(l, l.Release(l.Context(), a))
		b := pgtest.Granted(l.T, waiting)
		require.NoError(l, l.Release(l.Context(), b))
		done = l.run("show", l.resource)
		require.Equal(l, 1, done.status)
		require.Empty(l, done.err)
		require.Contains(l, done.out, "none: the lock is free")
		require.Nil(l, objects(l.T, l.run("show", "--json", l.resource).out)[0]["since"])
		require.NotContains(l, l.run("list").out, l.resource+" ")
	})
}

// The holder is paused in a transaction, and is not asked.
//
// hazard L26
func TestBreakDeposesAHolder(t *testing.T) {
	onEachLock(t, func(l *locked) {
		a := l.acquire("a")
		l.claim(a)
		waiting := l.queue("b")
		inside, resume := make(chan struct{}), make(chan struct{})
		paused := pgtest.Later(l.T, func() error {
			return l.marks.Update(token.NewContext(l.Context(), a), l.resource, func(pgx.Tx) error {
				close(inside)
				<-resume
				return nil
			})
		})
		<-inside
		done := l.breaks("a", "--reason", "it hangs")
		require.Zero(l, done.status, done.err)
		require.Empty(l, done.err)
		require.NotContains(l, done.out, "sekret")
		host, err := os.Hostname()
		require.NoError(l, err)
		by := regexp.QuoteMeta(host) + `:\d+/break by \S+: it hangs`
		require.Regexp(l, `^`+l.resource+`

  deposed  a
  by       `+by+`
  number   \d+: later holders have a higher one
  guard    postgres://\S+: it has admitted the number, and refuses lower ones
  guard    redis://\S+: it has admitted the number, and refuses lower ones
  guard    \S+accounts.id=42: it has admitted the number, and refuses lower ones
  lease    freed
  next     b, which has the lock
$`, done.out)
		l.requireAll(a, guard.ErrStale)
		close(resume)
		require.ErrorIs(l, paused(), guard.ErrEvicted)
		_, err = l.Renew(l.Context(), a, pgtest.Long)
		require.ErrorIs(l, err, token.ErrLost)
		require.Regexp(l, `(?m)^  holder +`+by+`$`, execute(l.T, "marks", "show", l.resource, "--postgres", testenv.PostgresURL(l.T), "--schema", l.schema).out)

		b := pgtest.Granted(l.T, waiting)
		l.claim(b)
		l.requireAll(b, nil)
		number := l.number()
		done = l.breaks("a")
		require.Equal(l, 1, done.status, "a repeat does not touch the successor")
		require.Equal(l, number, l.number(), "nor the issuer")
		require.Empty(l, done.err)
		require.Contains(l, done.out, "  holder   b\n")
		require.Contains(l, done.out, "\nIt has another holder: no guard and no lease was changed.\n")
		l.requireHeldBy(b)
		l.requireAll(b, nil)
	})
}

// The twin: the lock is free, and nothing refuses the old holder.
//
// hazard L26
func TestBreakUnfenced(t *testing.T) {
	onEachLock(t, func(l *locked) {
		a := l.acquire("a")
		l.claim(a)
		done := l.run("break", l.resource, "--holder", "a")
		requireFailed(l.T, done, 2, "nothing was changed: without a guard that refuses them, late writes of the deposed holder are accepted")
		l.requireHeldBy(a)

		done = l.run("break", l.resource, "--holder", "a", "--unfenced")
		require.Zero(l, done.status, done.err)
		require.True(l, strings.HasSuffix(done.out, `
  guard    none: late writes of the deposed holder are accepted until a successor has claimed
  lease    freed
  next     none: the lock is free
`), done.out)
		l.requireAll(a, nil)
		l.claim(l.acquire("b"))
		l.requireAll(a, guard.ErrStale)
	})
}

// The lease has ended, and nothing has deposed its holder yet.
func TestBreakOfAFreeLock(t *testing.T) {
	onEachLock(t, func(l *locked) {
		a := l.acquire("a")
		l.claim(a)
		require.NoError(l, l.Release(l.Context(), a))
		done := l.breaks("a")
		require.Zero(l, done.status, done.err)
		require.Contains(l, done.out, "  lease    had ended already\n")
		l.requireAll(a, guard.ErrStale)
		b := l.acquire("b")
		l.claim(b)
		l.requireAll(b, nil)
	})
}

// The issuer has forgotten the number of the holder. A guard has seen it, or none has yet.
func TestBreakOfAHolderAboveTheIssuer(t *testing.T) {
	onEachLock(t, func(l *locked) {
		early := l.acquire("early")
		l.forget()
		require.Less(l, l.number(), early.Number)
		require.Zero(l, l.breaks("early").status)
		l.requireAll(early, guard.ErrStale)

		a := l.acquire("a")
		a.Number += 6 * 60 * 60 * 100_000 // 6 h
		l.claim(a)
		done := l.breaks("a")
		require.Zero(l, done.status, done.err)
		l.requireAll(a, guard.ErrStale)
		b := l.acquire("b")
		require.Greater(l, b.Number, a.Number)
		l.claim(b)
		l.requireAll(b, nil)

		b.Number += 6 * 60 * 60 * 100_000 // nothing has seen it yet
		done = l.breaks("b", "--number", fmt.Sprint(b.Number))
		require.Zero(l, done.status, done.err)
		l.requireAll(b, guard.ErrStale)
	})
}

// A guard that does not confirm leaves the lease, and a repeat completes the break.
func TestBreakWithAGuardThatFails(t *testing.T) {
	onEachLock(t, func(l *locked) {
		server := testenv.OwnRedis(l.T)
		other := &redisguard.Guard{Client: server.Client()}
		more := []string{"--guard", "redis://" + server.Addr()}
		a := l.acquire("a")
		l.claim(a)
		require.NoError(l, other.Admit(l.Context(), a))
		set := func(replicas string) {
			require.NoError(l, server.Client().ConfigSet(l.Context(), "min-replicas-to-write", replicas).Err())
		}
		set("1") // it answers, and takes no writes
		done := l.breaks("a", more...)
		require.Equal(l, 2, done.status, done.out)
		require.Contains(l, done.err, "fencepost: the lease was not freed, repeat the command: redis://"+server.Addr()+": redisguard: admit ")
		require.Contains(l, done.out, "redis://"+server.Addr()+": uncertain: the number may be admitted or not\n")
		require.Contains(l, done.out, "  lease    not touched\n")
		require.Equal(l, 3, strings.Count(done.out, "it has admitted the number"), done.out)
		l.requireHeldBy(a)
		l.requireAll(a, guard.ErrStale)

		set("0")
		require.NoError(l, other.Admit(l.Context(), a), "it was not raised")
		done = l.breaks("a", more...)
		require.Zero(l, done.status, done.err)
		require.Contains(l, done.out, "  lease    freed\n")
		require.ErrorIs(l, other.Admit(l.Context(), a), guard.ErrStale)
		l.requireAll(a, guard.ErrStale)

		b := l.acquire("b")
		server.Kill()
		done = l.breaks("b", more...)
		requireFailed(l.T, done, 2, "nothing was changed: redis at "+server.Addr()+" cannot be used")
		l.requireHeldBy(b)
		l.claim(b)
		l.requireAll(b, nil)
	})
}

func TestBreakAtAGuardOnMySQL(t *testing.T) {
	t.Parallel()
	l, m := newLocked(t, "redis"), newMarkedMySQL(t)
	fence := &stdsql.Guard{DB: m.DB, Dialect: stdsql.MySQL, IdleTimeout: time.Second}
	a := l.acquire("a")
	write := func(tok token.Token) error {
		return fence.Update(token.NewContext(t.Context(), tok), l.resource, func(*sql.Tx) error { return nil })
	}
	inside := make(chan struct{})
	paused := pgtest.Later(t, func() error {
		return fence.Update(token.NewContext(t.Context(), a), l.resource, func(tx *sql.Tx) error {
			close(inside)
			_, err := tx.ExecContext(t.Context(), "DO SLEEP(0)")
			for err == nil { // the server ends the session of a holder that is idle
				time.Sleep(2 * time.Second)
				_, err = tx.ExecContext(t.Context(), "DO SLEEP(0)")
			}
			return err
		})
	})
	<-inside
	done := l.run("break", l.resource, "--holder", "a", "--guard", m.flags[1])
	require.Zero(t, done.status, done.err)
	require.ErrorIs(t, paused(), guard.ErrEvicted)
	require.Regexp(t, `(?m)^  guard +mysql at 127.0.0.1:\d+, database \S+: it has admitted the number, and refuses lower ones$`, done.out)
	require.ErrorIs(t, write(a), guard.ErrStale)
	require.NoError(t, write(l.acquire("b")))
}

func TestBreakRefusesFlags(t *testing.T) {
	t.Parallel()
	l := newLocked(t, "redis")
	a, url := l.acquire("a"), testenv.PostgresURL(t)
	for name, c := range map[string]struct {
		flags []string
		text  string
	}{
		"both ways":         {[]string{"--unfenced", "--guard", url}, "--unfenced excludes --guard and --row"},
		"no wait":           {[]string{"--guard", url, "--wait", "0s"}, "wait: 0s: must be at least 1ms"},
		"a huge number":     {[]string{"--guard", url, "--number", "9223372036854775807"}, `number "9223372036854775807" must be 1 to 999999999999999`},
		"a long reason":     {[]string{"--guard", url, "--reason", strings.Repeat("x", 300)}, "must be at most 200 bytes"},
		"no server":         {[]string{"--guard", "redis://u:sekret@127.0.0.1:1"}, "nothing was changed: redis at 127.0.0.1:1 cannot be used"},
		"no PostgreSQL":     {[]string{"--guard", "postgres://u:sekret@127.0.0.1:1/db"}, "nothing was changed: postgres cannot be used"},
		"no MySQL":          {[]string{"--guard", "u:sekret@tcp(127.0.0.1:1)/db"}, "nothing was changed: mysql at 127.0.0.1:1, database db cannot be used"},
		"no URL":            {[]string{"--guard", "sekret"}, "--guard: neither a postgres:// or redis:// URL nor a DSN of MySQL"},
		"a wrong URL":       {[]string{"--guard", "postgres://u:sek%ret@h/db"}, "--guard: neither a postgres:// or redis:// URL nor a DSN of MySQL"},
		"a row elsewhere":   {[]string{"--guard", url, "--row", "accounts.id=43"}, `nothing was changed: --row: "accounts.id=43": want TABLE.KEY=VALUE`},
		"half of a key":     {[]string{"--guard", url, "--row", "accounts.id=2"}, "with the lock's name behind the prefix of the table as VALUE"},
		"a row of no table": {[]string{"--guard", url, "--row", "id=42"}, "want TABLE.KEY=VALUE"},
		"a row of Redis":    {[]string{"--guard", testenv.RedisURL(t), "--row", "accounts.id=42"}, "one PostgreSQL in --guard"},
	} {
		t.Run(name, func(t *testing.T) {
			done := execute(t, append(append([]string{"locks", "break", l.resource, "--holder", "a"}, l.flags...), c.flags...)...)
			requireFailed(t, done, 2, c.text)
		})
	}
	done := l.run("break", l.resource, "--holder", "a", "--guard", url, "--row", l.schema+".nowhere.id=42")
	require.Equal(t, 2, done.status)
	require.Contains(t, done.out, "  lease    not touched\n")
	require.Contains(t, done.err, "nowhere")
	l.requireHeldBy(a)
	requireFailed(t, execute(t, "locks", "list"), 2, "give --redis=URL, --postgres=URL, --etcd=URL or --url=URL")
	requireFailed(t, l.run("show", ""), 2, "must not be empty")
}

// A row that the role does not see, or that is in another table: its holder would write on.
func TestBreakFindsTheRow(t *testing.T) {
	t.Parallel()
	l := newLocked(t, "postgres")
	a := l.acquire("a")
	l.claim(a)
	hidden := l.schema + "_hidden"
	for _, sql := range []string{
		"CREATE SCHEMA " + hidden, "CREATE TABLE " + hidden + ".accounts (id bigint PRIMARY KEY)",
		"SELECT " + pgtest.In(l.schema, "add_mark_columns") + "('" + hidden + ".accounts')",
	} {
		pgtest.Exec(t, l.pool, sql)
	}
	t.Cleanup(func() {
		_, err := l.pool.Exec(context.WithoutCancel(t.Context()), "DROP SCHEMA "+hidden+" CASCADE")
		require.NoError(t, err)
	})
	done := l.run("break", l.resource, "--holder", "a", "--guard", testenv.PostgresURL(t)+"&search_path="+hidden, "--row", "accounts.id=42")
	require.Equal(t, 2, done.status, done.out)
	require.Contains(t, done.err, "the lease was not freed, repeat the command: accounts.id=42: this role has found no such row")
	l.requireHeldBy(a)
	require.NoError(t, l.table.Update(token.NewContext(t.Context(), a), 42, rowguard.Set{"balance": 1}), "the twin")
}

// A mark of another holder, as of a break at the same time, or the floor is above the new
// number and refuses it. The row's own mark is lower, or there is none.
func TestBreakRaisesAboveWhatRefusesIt(t *testing.T) {
	onEachLock(t, func(l *locked) {
		url, ahead := testenv.PostgresURL(l.T), int64(6*60*60*100_000) // 6 h
		a := l.acquire("a")
		l.claim(a)
		require.NoError(l, l.marks.Admit(l.Context(), token.Token{Resource: l.resource, Number: a.Number + ahead, Holder: "x"}))
		a.Number += ahead / 2 // the issuer has forgotten it
		pgtest.Exec(l.T, l.pool, "UPDATE "+l.table.Name.Sanitize()+" SET last_token = $1", a.Number)
		done := l.run("break", l.resource, "--holder", "a", "--guard", url, "--row", l.schema+".accounts.id=42")
		require.Zero(l, done.status, done.err)
		require.ErrorIs(l, l.table.Update(token.NewContext(l.Context(), a), 42, rowguard.Set{"balance": 1}), guard.ErrStale)

		l.resource += "/other"
		b := l.acquire("b")
		b.Number += 2 * ahead // the issuer has forgotten it
		pgtest.Exec(l.T, l.pool, "UPDATE "+pgtest.In(l.schema, "floor")+" SET number = $1", b.Number)
		done = l.run("break", l.resource, "--holder", "b", "--guard", url)
		require.Zero(l, done.status, done.err)
		require.ErrorIs(l, l.marks.Admit(l.Context(), b), guard.ErrStale)
	})
}

// The rights in Redis that docs/locks.md and docs/stuck.md name.
func TestTheRightsToLookAreEnough(t *testing.T) {
	t.Parallel()
	words := []any{"ACL"}
	for _, of := range [][]string{{"locks.md", "ACL (SETUSER operator on >… ~fencepost:[^`]*[+]scan)"}, {"stuck.md", "in Redis also `([+][^`]*)`"}} {
		page, err := os.ReadFile("../../docs/" + of[0])
		require.NoError(t, err)
		found := regexp.MustCompile(of[1]).FindSubmatch(page)
		require.NotNil(t, found, of[0])
		for _, word := range strings.Fields(string(found[1])) {
			words = append(words, word)
		}
	}
	server := testenv.OwnRedis(t)
	iss := &redistoken.Issuer{Client: server.Client()}
	t.Cleanup(func() { require.NoError(t, iss.Close()) })
	a := pgtest.Acquire(t, iss, "a")
	require.NoError(t, server.Client().Do(t.Context(), words...).Err())
	for _, args := range [][]string{{"list"}, {"show", a.Resource}} {
		done := execute(t, append([]string{"locks", "--redis", "redis://operator:%E2%80%A6@" + server.Addr()}, args...)...)
		require.Zero(t, done.status, done.err)
		require.Contains(t, done.out, a.Resource)
	}
}

// Passwords with a space. The PostgreSQL of the tests asks for none.
func TestBreakPrintsNoPassword(t *testing.T) {
	t.Parallel()
	l, m := newLocked(t, "redis"), newMarkedMySQL(t)
	config, err := pgx.ParseConfig(testenv.PostgresURL(t))
	require.NoError(t, err)
	settings := fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=disable password=", config.Host, config.Port, config.User, config.Database)
	user := "'" + l.schema + "'@'127.0.0.1'"
	for _, sql := range []string{"CREATE USER " + user + " IDENTIFIED BY 'my sekret'", "GRANT ALL ON *.* TO " + user} {
		_, err = m.ExecContext(t.Context(), sql)
		require.NoError(t, err)
	}
	defer func() { _, _ = m.ExecContext(t.Context(), "DROP USER "+user) }()
	for _, guard := range []string{settings + `my\ sekret`, settings + "my&sekret", settings + `'my sekret'`, strings.Replace(m.flags[1], "root@", l.schema+":my sekret@", 1)} {
		done := l.run("break", l.resource, "--holder", "a", "--guard", guard)
		require.Zero(t, done.status, done.err)
		require.Contains(t, done.out, "127.0.0.1")
		require.NotContains(t, done.out, "sekret")
	}
}
