package pgxpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
)

// env is a schema with a table of notes, a plain pool, and one that is traced.
type env struct {
	t             *testing.T
	schema        string
	plain, traced *pgxpool.Pool
	deaf          atomic.Bool // the traced pool's answers are lost from the next packet with cutAt on
	cutAt         string
}

func newEnv(t *testing.T, mode pgx.QueryExecMode) *env {
	t.Helper()
	plain, schema := testenv.Postgres(t)
	e := &env{t: t, schema: schema, plain: plain}
	config := plain.Config()
	config.MaxConns = 2
	config.ConnConfig.DefaultQueryExecMode = mode
	config.ConnConfig.Tracer = pgxpoint.Tracer{}
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &wire{Conn: conn, env: e}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	e.traced = pool
	_, err = plain.Exec(t.Context(), e.sql("CREATE TABLE %[1]s.notes (id bigint PRIMARY KEY, text text NOT NULL DEFAULT '', twin bigint REFERENCES %[1]s.notes DEFERRABLE INITIALLY DEFERRED)"))
	require.NoError(t, err)
	return e
}

func (e *env) sql(text string) string { return fmt.Sprintf(text, pgx.Identifier{e.schema}.Sanitize()) }

func (e *env) notes() (n int) {
	e.t.Helper()
	require.NoError(e.t, e.plain.QueryRow(e.t.Context(), e.sql("SELECT count(*) FROM %s.notes")).Scan(&n))
	return n
}

// wire loses the answer to the packet that has cutAt in it.
type wire struct {
	net.Conn
	env *env
	cut atomic.Bool
}

func (w *wire) Write(b []byte) (int, error) {
	if w.env.deaf.Load() && bytes.Contains(b, []byte(w.env.cutAt)) {
		defer w.cut.Store(true)
	}
	return w.Conn.Write(b)
}

func (w *wire) Read(b []byte) (int, error) {
	if w.cut.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	return w.Conn.Read(b)
}

var errMine = errors.New("mine")
