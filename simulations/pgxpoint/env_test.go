package pgxpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/sqlguard"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// env is a schema with a table of notes, a plain pool, and a traced one.
type env struct {
	t             *testing.T
	schema        string
	plain, traced *pgxpool.Pool
	dropsReplies  atomic.Bool // the traced pool's answers are dropped from the next write with cutAt on
	cutAt         string
	slow          atomic.Bool // a write of the traced pool returns when pgx reads on behind the reply
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
		return newWire(conn, e), err
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

// guard is one over the traced pool, whose transactions a busy machine may leave idle.
func (e *env) guard() *sqlguard.Guard {
	return &sqlguard.Guard{DB: e.traced, Schema: e.schema, IdleTimeout: time.Hour}
}

func (e *env) notes() (n int) {
	e.t.Helper()
	require.NoError(e.t, e.plain.QueryRow(e.t.Context(), e.sql("SELECT count(*) FROM %s.notes")).Scan(&n))
	return n
}

// wire drops the reply to the write that contains cutAt.
type wire struct {
	net.Conn
	env *env
	cut atomic.Bool

	mu       sync.Mutex
	changed  *sync.Cond
	reading  bool // a Read is in progress
	answered bool // a Read has returned data since the slow write began
}

func newWire(conn net.Conn, e *env) *wire {
	w := &wire{Conn: conn, env: e}
	w.changed = sync.NewCond(&w.mu)
	return w
}

func (w *wire) NetConn() net.Conn { return w.Conn }

// Write returns, if it is slow, after pgx has read the reply meanwhile, and reads again.
func (w *wire) Write(b []byte) (int, error) {
	if w.env.dropsReplies.Load() && bytes.Contains(b, []byte(w.env.cutAt)) {
		w.cut.Store(true)
	}
	if !w.env.slow.Swap(false) {
		return w.Conn.Write(b)
	}
	w.set(func() { w.answered = false })
	n, err := w.Conn.Write(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.answered || !w.reading {
		w.changed.Wait()
	}
	return n, err
}

func (w *wire) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	w.changed.Broadcast()
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := 0, io.EOF
	if !w.cut.Load() {
		w.set(func() { w.reading = true })
		n, err = w.Conn.Read(b)
		w.set(func() { w.reading, w.answered = false, w.answered || n > 0 })
	}
	// Again: pgx reads during a slow write.
	if w.cut.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

var errMine = errors.New("mine")
