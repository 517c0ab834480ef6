package simulations_test

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/simulations/proxy"
	"github.com/fencepost/fencepost/sqlguard"
)

// bank is account 42 with a balance of 100, written by A through a proxy, on
// one connection, and by everybody else directly.
type bank struct {
	*proxy.Proxy
	server        *pgxpool.Pool
	a, direct     *sqlguard.Guard
	selects, sets string
	session       string                   // as the server calls A's
	line          atomic.Pointer[net.Conn] // A's one
	commits       func()                   // runs when A is about to send COMMIT
}

func newBank(t *testing.T) *bank {
	t.Helper()
	server, schema := testenv.Postgres(t)
	table := pgx.Identifier{schema, "accounts"}.Sanitize()
	_, err := server.Exec(t.Context(), "CREATE TABLE "+table+" (balance int NOT NULL); INSERT INTO "+table+" VALUES (100)")
	require.NoError(t, err)
	b := &bank{
		server: server, direct: &sqlguard.Guard{DB: server, Schema: schema},
		selects: "SELECT balance FROM " + table, sets: "UPDATE " + table + " SET balance = $1",
		session: "A of " + schema, commits: func() {},
	}
	config := server.Config().Copy()
	config.MaxConns, config.ConnConfig.Tracer = 1, b
	config.ConnConfig.RuntimeParams["application_name"] = b.session
	config.ConnConfig.DialFunc = b.dial
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b.Proxy = startProxy(t, net.JoinHostPort(config.ConnConfig.Host, strconv.Itoa(int(config.ConnConfig.Port))))
	b.a = &sqlguard.Guard{DB: pool, Schema: schema}
	return b
}

// dial makes A's one line. There is no other, also not for the request that
// pgx would send to cancel what runs on the first.
func (b *bank) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	line, err := new(net.Dialer).DialContext(ctx, network, b.Addr())
	if err != nil {
		return nil, err
	}
	if !b.line.CompareAndSwap(nil, &line) {
		line.Close()
		return nil, net.ErrClosed
	}
	return line, nil
}

// hangUp is what A's kernel does when A is killed: it says goodbye behind what
// was sent.
func (b *bank) hangUp(t *testing.T) {
	t.Helper()
	require.NoError(t, (*b.line.Load()).Close())
}

func (b *bank) balance(t *testing.T) (balance int) {
	t.Helper()
	require.NoError(t, b.server.QueryRow(t.Context(), b.selects).Scan(&balance))
	return balance
}

var _ pgx.QueryTracer = (*bank)(nil)

func (b *bank) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL == "commit" {
		b.commits()
	}
	return ctx
}

func (b *bank) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
