package sqlguard_test

import (
	"context"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// between does something before the second of two packets.
type between struct {
	net.Conn
	packets int
	do      func()
}

func (b *between) Write(p []byte) (int, error) {
	if b.packets++; b.packets == 2 && b.do != nil {
		b.do()
	}
	return b.Conn.Write(p)
}

// A statement by itself that is described first takes two packets, and the
// second one needs what the first one left: another client may have that session
// by then. So it is with Table.Update, which is one. The packets of the other
// doors ask for nothing of what was described before.
//
// hazard P8
func TestDescribedStatementsBehindAPooler(t *testing.T) {
	t.Parallel()
	e, url := newRows(t), testenv.PgBouncer(t)
	e.claimed(33)
	set := e.sql("UPDATE accounts SET writer = $1 WHERE id = 42")
	// meddled runs a statement with another client in its session halfway.
	meddled := func(run func(pool *pgxpool.Pool) error) error {
		var line *between
		var meddler pgx.Tx
		config, err := pgxpool.ParseConfig(url)
		require.NoError(t, err)
		config.MaxConns = 1
		inMode(pgx.QueryExecModeDescribeExec)(config)
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			line = &between{Conn: conn}
			return line, err
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		defer pool.Close()
		require.NoError(t, pool.Ping(t.Context()))
		meddlers := client(t, url, pgx.QueryExecModeExec, 1)
		line.packets, line.do = 0, func() {
			meddler, err = meddlers.Begin(t.Context())
			require.NoError(t, err)
		}
		said := run(pool)
		require.NotNil(t, meddler, "nobody came in between")
		require.NoError(t, meddler.Rollback(t.Context()))
		return said
	}
	over := func(pool *pgxpool.Pool) *sqlguard.Guard { return e.with(func(g *sqlguard.Guard) { g.DB = pool }) }
	for _, alone := range []func(pool *pgxpool.Pool) error{
		func(pool *pgxpool.Pool) error { _, err := pool.Exec(t.Context(), set, "plain"); return err },
		func(pool *pgxpool.Pool) error {
			return rowDoors(e.env, e.table(over(pool)))["Update"](e.ctx(33), "row")
		},
	} {
		err := meddled(alone)
		require.Equal(t, "26000", outcomeCode(err), "%v", err)
		require.Empty(t, outcomes(err))
		require.Empty(t, e.writer())
	}
	for writer, admitted := range map[string]func(pool *pgxpool.Pool) error{
		"On": func(pool *pgxpool.Pool) error { return doors(e.env, over(pool))["On.Exec"](e.ctx(33), "On") },
		"protected": func(pool *pgxpool.Pool) error {
			return rowDoors(e.env, e.table(over(pool)))["Update, protected"](e.ctx(33), "protected")
		},
	} {
		require.NoError(t, meddled(admitted))
		require.Equal(t, writer, e.writer())
	}
}
