package sqlguard_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	pool, w := wired(t, 1)
	g := e.by(pool)
	reporting, _ := e.reporting(pool)
	accounts, reportingTable := e.table(g), e.table(reporting)
	protected := *accounts
	protected.Protected = true
	e.claimed(33)
	ctx, zombie := e.ctx(33), e.ctx(32)
	statement := e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42")
	e.exec("CREATE PROCEDURE " + e.schema + ".nothing() LANGUAGE sql AS ''")
	call := "CALL " + e.schema + ".nothing()"
	plainly := func() {
		tx, err := pool.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, e.write(ctx, "x")(tx))
		require.NoError(t, tx.Commit(ctx))
	}
	both := token.NewContext(ctx, token.Token{Resource: "account/43", Number: 33, Holder: "h33"})
	require.NoError(t, e.guard.Admit(ctx, token.Token{Resource: "account/43", Number: 33, Holder: "h33"}))

	var fresh int64
	for name, c := range map[string]struct {
		trips int64
		call  func() error
		is    error
	}{
		"Update, with the closure's one statement": {3, func() error { return g.Update(ctx, resource, e.write(ctx, "x")) }, nil},
		"UpdateAll, with the closure's one statement": {3, func() error {
			return g.UpdateAll(both, []string{resource, "account/43"}, e.write(ctx, "x"))
		}, nil},
		"On, under a token that is new each time": {3, func() error {
			fresh++
			_, err := g.On("account/45").Exec(token.NewContext(ctx, token.Token{Resource: "account/45", Number: fresh, Holder: "h"}), statement)
			return err
		}, nil},
		"Update, refused":        {2, func() error { return g.Update(zombie, resource, e.write(ctx, "x")) }, guard.ErrStale},
		"Update, report-only":    {3, func() error { return reporting.Update(zombie, resource, e.write(ctx, "x")) }, nil},
		"On":                     {1, func() error { _, err := g.On(resource).Exec(ctx, statement); return err }, nil},
		"On, refused":            {1, func() error { _, err := g.On(resource).Exec(zombie, statement); return err }, guard.ErrStale},
		"On, of a CALL":          {1, func() error { _, err := g.On(resource).Exec(ctx, call); return err }, nil},
		"On, of a CALL, refused": {2, func() error { _, err := g.On(resource).Exec(zombie, call); return err }, guard.ErrStale},
		"On, with a level of its own, refused": {2, func() error {
			_, err := e.with(func(g *sqlguard.Guard) { g.DB, g.Tx.IsoLevel = pool, pgx.ReadCommitted }).On(resource).Exec(zombie, statement)
			return err
		}, guard.ErrStale},
		"On, report-only":  {1, func() error { _, err := reporting.On(resource).Exec(zombie, statement); return err }, nil},
		"Admit":            {1, func() error { return g.Admit(ctx, tokenOf(33)) }, nil},
		"Admit, refused":   {2, func() error { return g.Admit(ctx, tokenOf(32)) }, guard.ErrStale},
		"Mint":             {1, func() error { _, err := g.Mint(ctx, "account/44", "h"); return err }, nil},
		"a batch":          {1, func() error { return g.On(resource).SendBatch(ctx, batch(statement, statement)).Close() }, nil},
		"a batch, refused": {2, func() error { return g.On(resource).SendBatch(zombie, batch(statement)).Close() }, guard.ErrStale},
		"a query":          {1, func() error { return g.On(resource).QueryRow(ctx, statement+" RETURNING id").Scan(nil) }, nil},
		"the plain statement": {1, func() error {
			_, err := pool.Exec(ctx, e.sql("UPDATE accounts SET writer = $1 WHERE id = $2"), "x", 42)
			return err
		}, nil},
		"Table, Update":              {1, func() error { return accounts.Update(ctx, 42, setWriter) }, nil},
		"Table, Update, refused":     {2, func() error { return accounts.Update(zombie, 42, setWriter) }, guard.ErrStale},
		"Table, Update, report-only": {1, func() error { return reportingTable.Update(zombie, 42, setWriter) }, nil},
		"Table, Update, protected":   {1, func() error { return protected.Update(ctx, 42, setWriter) }, nil},
		"Table, Upsert":              {1, func() error { return accounts.Upsert(ctx, 42, setWriter) }, nil},
		"Table, Upsert, refused":     {1, func() error { return accounts.Upsert(zombie, 42, setWriter) }, guard.ErrStale},
		"Table, Delete, then Insert": {2, func() error { return rowDoors(e.env, accounts)["Delete, then Insert"](ctx, "x") }, nil},
		"Table, Delete, refused":     {1, func() error { return accounts.Delete(zombie, 42) }, guard.ErrStale},
		"Table, Claim":               {1, func() error { return accounts.Claim(ctx, tokenOf(33)) }, nil},
		"Table, Claim, refused":      {2, func() error { return accounts.Claim(ctx, tokenOf(32)) }, guard.ErrStale},
		"Table, Claim, report-only":  {1, func() error { return reportingTable.Claim(ctx, tokenOf(32)) }, nil},
		"Table, Explain":             {1, func() error { return accounts.Explain(zombie, 42) }, guard.ErrStale},
	} {
		t.Run(fmt.Sprintf("%s: %d", name, c.trips), func(t *testing.T) {
			require.Equal(t, c.trips, w.during(func() { require.ErrorIs(t, c.call(), c.is) }))
		})
	}
	require.Equal(t, int64(3), w.during(plainly), "the unguarded closure")
	pings := w.pings.Load()
	require.NoError(t, g.Update(ctx, resource, func(tx pgx.Tx) error { time.Sleep(150 * time.Millisecond); return e.write(ctx, "x")(tx) }))
	require.Greater(t, w.pings.Load(), pings, "an Update that lasts asks before it commits")
	require.Equal(t, int64(1), w.dials.Load(), "the connection survives every refusal")
}

// wire counts a pool's network writes.
type wire struct {
	dials atomic.Int64
	trips atomic.Int64 // writes; pgx makes one for each round trip
	// pings are the writes that ping a session: a slow machine can make any transaction
	// old enough for a ping.
	pings atomic.Int64
}

// unasked returns the number of round trips without the pings.
func (w *wire) unasked() int64 { return w.trips.Load() - w.pings.Load() }

type counted struct {
	net.Conn
	wire *wire
}

func (c *counted) Write(b []byte) (int, error) {
	c.wire.trips.Add(1)
	if bytes.Contains(b, []byte("-- ping")) {
		c.wire.pings.Add(1)
	}
	return c.Conn.Write(b)
}

// acquire returns a connection of a pool until the test ends.
func acquire(t testing.TB, pool *pgxpool.Pool) *pgxpool.Conn {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	t.Cleanup(conn.Release)
	return conn
}

// batch returns a batch of statements without arguments.
func batch(statements ...string) *pgx.Batch {
	b := &pgx.Batch{}
	for _, text := range statements {
		b.Queue(text)
	}
	return b
}

// wired returns a pool of at most size connections whose writes are counted.
func wired(t testing.TB, size int32, change ...func(*pgxpool.Config)) (*pgxpool.Pool, *wire) {
	t.Helper()
	w := &wire{}
	return pgtest.Connect(t, func(config *pgxpool.Config) {
		config.MaxConns = size
		config.ConnConfig.RuntimeParams["application_name"] = sessionName(t.Name())
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			w.dials.Add(1)
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &counted{conn, w}, err
		}
		for _, c := range change {
			c(config)
		}
	}), w
}

// during returns how many round trips f takes once everything is prepared.
func (w *wire) during(f func()) int64 {
	f()
	before := w.unasked()
	f()
	return w.unasked() - before
}

// modes are all exec modes of pgx.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// inEveryMode runs a test in each of the modes, in parallel.
func inEveryMode(t *testing.T, modes []pgx.QueryExecMode, test func(t *testing.T, mode pgx.QueryExecMode)) {
	t.Helper()
	for _, mode := range modes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			test(t, mode)
		})
	}
}

func inMode(mode pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }
}

// withSetting makes every connection begin with a setting.
func withSetting(name, value string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
}
