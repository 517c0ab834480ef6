package pgtoken_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// hazard P8
func TestEveryModeInOnePacketACall(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	for mode, packets := range map[pgx.QueryExecMode]int64{
		pgx.QueryExecModeCacheStatement: 1,
		pgx.QueryExecModeCacheDescribe:  1,
		pgx.QueryExecModeDescribeExec:   2,
		pgx.QueryExecModeExec:           1,
		pgx.QueryExecModeSimpleProtocol: 1,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			var sent atomic.Int64
			iss := closed(t, &pgtoken.Issuer{DB: counting(t, mode, &sent), Schema: schema})
			everyVerb(t, iss, func(_ string, call func()) { call() }) // prepares
			everyVerb(t, iss, func(verb string, call func()) {
				before := sent.Load()
				call()
				require.Equal(t, packets, sent.Load()-before, verb)
			})
		})
	}
}

// counting is a pool of one connection that counts its packets.
func counting(t *testing.T, mode pgx.QueryExecMode, sent *atomic.Int64) *pgxpool.Pool {
	t.Helper()
	return connect(t, func(config *pgxpool.Config) {
		one(config)
		config.ConnConfig.DefaultQueryExecMode = mode
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return countingConn{conn, sent}, err
		}
	})
}

func everyVerb(t *testing.T, iss *pgtoken.Issuer, do func(verb string, call func())) {
	t.Helper()
	var tok token.Token
	do("acquire", func() { tok = acquire(t, iss, "a") })
	do("refused acquire", func() {
		_, err := iss.Acquire(t.Context(), resource, "b", long)
		require.ErrorIs(t, err, token.ErrHeld)
	})
	do("renew", func() {
		_, err := iss.Renew(t.Context(), tok, long)
		require.NoError(t, err)
	})
	do("wait", func() {
		_, err := iss.Wait(t.Context(), resource, "a", long)
		require.NoError(t, err)
	})
	do("raise", func() { require.ErrorIs(t, iss.Raise(t.Context(), resource, 1), token.ErrLost) })
	do("release", func() { require.NoError(t, iss.Release(t.Context(), tok)) })
	do("lost", func() { require.ErrorIs(t, iss.Release(t.Context(), tok), token.ErrLost) })
}

type countingConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}
