package sqlguard_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// commitFault breaks the connection that sends the next COMMIT, or the packet with a word.
type commitFault struct {
	word    string // instead of the COMMIT, if not empty
	armed   atomic.Bool
	stays   bool   // armed, for the next connection
	swallow bool   // the packet is not sent
	then    func() // called after that, if not nil
}

// commitConn is a connection of a commitFault. Once it is broken, its client reads nothing.
type commitConn struct {
	net.Conn
	fault  *commitFault
	broken atomic.Bool
}

// cancelRequest is the code of a CancelRequest (manual, Message Formats). pgx sends one
// when a connection breaks. It does not arrive: the connection may be lost with the whole
// network.
const cancelRequest = "\x04\xd2\x16\x2e"

func (c *commitConn) Write(b []byte) (int, error) {
	if len(b) == 16 && string(b[4:8]) == cancelRequest {
		_ = c.Close()
		return len(b), nil
	}
	word := cmp.Or(c.fault.word, "commit\x00")
	if !bytes.Contains(b, []byte(word)) || !c.fault.armed.CompareAndSwap(true, c.fault.stays) {
		return c.Conn.Write(b)
	}
	c.broken.Store(true) // before it is sent: if that takes long, pgx reads meanwhile
	n := len(b)
	var err error
	if !c.fault.swallow {
		n, err = c.Conn.Write(b)
	}
	if c.fault.then != nil {
		c.fault.then()
	}
	return n, err
}

func (c *commitConn) Read(b []byte) (int, error) {
	if c.broken.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(b)
	if c.broken.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// breaks makes f break the connections of a pool. In this mode each COMMIT is sent as text.
func (f *commitFault) breaks(config *pgxpool.Config) {
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pgtest.Wrap(config, func(conn net.Conn) (net.Conn, error) { return &commitConn{Conn: conn, fault: f}, nil })
}

// after returns fn, after which f breaks the connection at the COMMIT.
func (f *commitFault) after(fn func(pgx.Tx) error) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		err := fn(tx)
		f.armed.Store(true)
		return err
	}
}

// committed returns a function that waits for a balance. A question that overtakes the
// COMMIT ends its session.
func (e *env) committed(balance int64) func() {
	return func() {
		e.t.Helper()
		e.await("the commit", func() bool { return e.balance() == balance })
	}
}

// addOne adds 1 to the balance of account 42.
func (e *env) addOne(ctx context.Context) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, e.sql("UPDATE accounts SET balance = balance + 1 WHERE id = 42"))
		return err
	}
}

// sessions returns how many other sessions are in a transaction that has written accounts.
func (e *env) sessions() int {
	return query[int](e, "SELECT count(*) FROM pg_locks WHERE relation = 'accounts'::regclass AND mode = 'RowExclusiveLock'")
}

func TestACommitIsSettled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url          func(testing.TB) string
		swallow, all bool
	}{
		"a lost reply":                 {url: testenv.PostgresURL},
		"a lost reply to an UpdateAll": {url: testenv.PostgresURL, all: true},
		"a lost COMMIT":                {url: testenv.PostgresURL, swallow: true},
		// The process that the client was told of is not the session's.
		"a lost reply behind PgBouncer":  {url: testenv.PgBouncer},
		"a lost COMMIT behind PgBouncer": {url: testenv.PgBouncer, swallow: true},
	} {
		inEnv(t, name, func(t *testing.T, e *env) {
			fault, ctx := &commitFault{swallow: c.swallow}, e.ctx(33)
			g := e.by(pgtest.Pool(t, c.url(t), fault.breaks))
			require.NoError(t, g.Update(ctx, resource, e.addOne(ctx)))
			write := func() error { return g.Update(ctx, resource, fault.after(e.addOne(ctx))) }
			if c.all {
				write = func() error { return g.UpdateAll(ctx, []string{resource}, fault.after(e.addOne(ctx))) }
			}
			if c.swallow {
				err := write()
				require.Equal(t, []error{guard.ErrRetryable}, outcomes(err), "%v", err)
				require.Equal(t, int64(101), e.balance())
				fault.swallow = false
			}
			fault.then = e.committed(102)
			require.NoError(t, write())
			require.False(t, fault.armed.Load())
			require.Equal(t, int64(102), e.balance())
		})
	}
	inEnv(t, "the twin cannot tell, and a caller that repeats it writes twice", func(t *testing.T, e *env) {
		fault, ctx := &commitFault{}, e.bounded()
		pool := pgtest.Connect(t, fault.breaks)
		require.Error(t, pgx.BeginFunc(ctx, pool, fault.after(e.addOne(ctx))))
		require.NoError(t, pgx.BeginFunc(ctx, pool, e.addOne(ctx)))
		require.Equal(t, int64(102), e.balance())
	})
}

// A COMMIT that is still on its way when the client asks must not arrive after the answer.
//
// hazard G36
func TestALateCommitIsSettled(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	late := func(fault *commitFault) (*netfault.Proxy, *pgxpool.Pool) {
		proxy, err := netfault.Start(strings.Replace(address(t, testenv.PostgresURL(t)), "localhost", "127.0.0.1", 1))
		require.NoError(t, err)
		t.Cleanup(proxy.Close)
		near := true
		return proxy, pgtest.Connect(t, func(c *pgxpool.Config) {
			dial := c.ConnConfig.DialFunc
			c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if near { // the first connection; the question takes another way
					addr, near = proxy.Addr(), false
				}
				return dial(ctx, network, addr)
			}
			fault.breaks(c)
			pgtest.One(c)
		})
	}
	fault := &commitFault{}
	proxy, pool := late(fault)
	g, ctx, before := e.by(pool), e.ctx(33), e.balance()
	require.NoError(t, g.Update(ctx, resource, e.addOne(ctx)))
	err := g.Update(ctx, resource, fault.after(func(tx pgx.Tx) error {
		err := e.addOne(ctx)(tx)
		proxy.Blackhole(netfault.ToServer)
		return err
	}))
	require.Equal(t, []error{guard.ErrRetryable}, outcomes(err), "%v", err)
	require.Positive(t, proxy.Held(netfault.ToServer), "the COMMIT is on its way")
	proxy.Heal(netfault.ToServer)
	e.await("the end of the late session", func() bool { return e.sessions() == 0 })
	require.Equal(t, before+1, e.balance())

	t.Run("the twin asks, and does not end the session: its answer becomes wrong", func(t *testing.T) {
		fault := &commitFault{}
		proxy, pool := late(fault)
		require.NoError(t, pool.Ping(t.Context()))
		var id string
		err := pgx.BeginFunc(e.bounded(), pool, fault.after(func(tx pgx.Tx) error {
			if err := tx.QueryRow(e.bounded(), "SELECT pg_current_xact_id()::text").Scan(&id); err != nil {
				return err
			}
			err := e.addOne(e.bounded())(tx)
			proxy.Blackhole(netfault.ToServer)
			return err
		}))
		require.Error(t, err)
		status := func() string { return query[string](e, "SELECT pg_xact_status($1::text::xid8)", id) }
		require.Equal(t, "in progress", status())
		proxy.Heal(netfault.ToServer)
		e.await("the COMMIT", func() bool { return status() == "committed" })
	})
}

// A crash restart assigns the ids again that it has no record of. The id of the lost
// transaction then belongs to another one, which is committed.
//
// hazard G37
func TestStressAnIDFromBeforeACrashIsNotBelieved(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	e := envOn(t, spare.URL())
	e.admitted(33)
	e.await("a crash after which the id comes again", func() bool {
		fault := &commitFault{swallow: true}
		g := e.with(func(g *sqlguard.Guard) { g.DB = pgtest.Pool(t, spare.URL(), fault.breaks) })
		e.pool.Reset()
		ctx, before, id := e.ctx(33), e.balance(), int64(0)
		again := false
		fault.then = func() { spare.Crash(); again = e.reaches(id); before = e.balance() }
		err := g.Update(ctx, resource, fault.after(func(tx pgx.Tx) error {
			if err := tx.QueryRow(ctx, "SELECT pg_current_xact_id()::text::bigint").Scan(&id); err != nil {
				return err
			}
			return e.addOne(ctx)(tx)
		}))
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
		require.Equal(t, before, e.balance())
		return again // the twin: pg_xact_status says that the id is committed
	})
}

// reaches commits transactions until the server has assigned id, and reports whether one
// of them got it.
func (e *env) reaches(id int64) bool {
	e.pool.Reset()
	last := int64(0)
	for last < id {
		before := last
		last = query[int64](e, "SELECT pg_current_xact_id()::text::bigint")
		if before == 0 && last > id {
			return false
		}
	}
	return query[string](e, "SELECT pg_xact_status($1::text::xid8)", strconv.FormatInt(id, 10)) == "committed"
}

// A standby that is promoted lacks the last commits of its primary, and assigns their ids
// to other transactions.
//
// hazard G38
func TestStressAnIDOfAnotherServerIsNotBelieved(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	standby := primary.Standby()
	e := envOn(t, primary.URL())
	e.admitted(33)
	primary.CaughtUp()
	standby.CutOff()
	two := strings.Replace(primary.URL(), "@"+primary.Addr(), "@"+primary.Addr()+","+standby.Addr(), 1)
	fault := &commitFault{}
	pool := pgtest.Pool(t, two, fault.breaks)
	promoted := *e
	id, again := int64(0), false
	fault.then = func() {
		e.await("the commit on the old primary", func() bool { return e.balance() == 101 })
		e.pool.Close()
		primary.Kill()
		standby.Promote()
		promoted.pool = pgtest.Pool(t, standby.URL(), nil)
		again = promoted.reaches(id)
	}
	g := e.by(pool)
	ctx := e.ctx(33)
	err := g.Update(ctx, resource, fault.after(func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "SELECT pg_current_xact_id()::text::bigint").Scan(&id); err != nil {
			return err
		}
		return e.addOne(ctx)(tx)
	}))
	require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
	require.Equal(t, int64(100), promoted.balance(), "the promoted standby lacks the write")
	require.True(t, again, "the twin: pg_xact_status says that the id is committed")
}

// Without an incarnation no id is believed. A session begins one if there is none.
func TestStressWithoutAnIncarnationACommitIsUnknown(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	e := envOn(t, spare.URL())
	e.admitted(33)
	unsettled := func(set func(*pgxpool.Config)) []error {
		fault := &commitFault{then: e.committed(e.balance() + 1)}
		g := e.with(func(g *sqlguard.Guard) {
			g.DB = pgtest.Pool(t, spare.URL(), func(c *pgxpool.Config) { fault.breaks(c); set(c) })
		})
		ctx := e.ctx(33)
		return outcomes(g.Update(ctx, resource, fault.after(e.addOne(ctx))))
	}
	usual := func(*pgxpool.Config) {}
	serializable := func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	}
	require.Empty(t, unsettled(usual))
	require.Empty(t, unsettled(serializable))
	e.exec("DELETE FROM fencepost.incarnation")
	require.Equal(t, []error{guard.ErrUnknown}, unsettled(serializable), "a fixed snapshot begins none")
	require.Empty(t, unsettled(usual), "as after a crash")
	require.Equal(t, 1, query[int](e, "SELECT count(*) FROM fencepost.incarnation"))

	e.exec("ALTER TABLE fencepost.incarnation SET LOGGED")
	require.Equal(t, []error{guard.ErrUnknown}, unsettled(usual))
	e.exec("ALTER TABLE fencepost.incarnation SET UNLOGGED")
	for _, dumped := range []string{"system = system + 1", "timeline = 'another'"} {
		e.exec("UPDATE fencepost.incarnation SET " + dumped)
		id := "SELECT id::text FROM fencepost.incarnation"
		brought := query[string](e, id)
		require.Empty(t, unsettled(usual))
		require.NotEqual(t, brought, query[string](e, id), "a row that a dump has brought is replaced")
	}
	e.exec("CREATE FUNCTION public.aurora_version() RETURNS text LANGUAGE sql AS 'SELECT 1'")
	require.Equal(t, []error{guard.ErrUnknown}, unsettled(usual))
	require.Equal(t, int64(108), e.balance())
}

// The transaction that begins an incarnation is asked for while its COMMIT is on its way,
// and the incarnation is not visible yet.
func TestTheFirstTransactionOfAnIncarnationIsSettled(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	e := envOn(t, spare.URL())
	e.exec("DELETE FROM fencepost.incarnation")
	tx, err := e.pool.Begin(t.Context())
	require.NoError(t, err)
	var name string
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT concat_ws(' ', pg_current_xact_id(), pg_backend_pid(), fencepost.session_incarnation())").Scan(&name))
	fates := make(chan string, 1)
	go func() { fates <- query[string](e, "SELECT coalesce(fencepost.transaction_fate($1), '')", name) }()
	e.await("the question waits", func() bool {
		return query[int](e, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 1
	})
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "committed", <-fates)
}

// envOn is newEnv on a server of the test's own, in the default schema.
func envOn(t *testing.T, url string) *env {
	t.Helper()
	testenv.Migrate(t, url)
	pool := pgtest.Pool(t, url, nil)
	e := &env{t: t, pool: pool, schema: "fencepost", guard: &sqlguard.Guard{DB: pool, IdleTimeout: patient}}
	pgtest.Accounts(t, pool, e.schema, 42)
	return e
}

// address returns the host and port of a URL.
func address(t *testing.T, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	return net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
}
