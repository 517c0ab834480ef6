package transfer_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/examples/transfer"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// kept is the TTL and the idle timeout of programs that are not stopped.
const kept = time.Hour

// servers have the accounts 42 to 44, with 100 each.
type servers struct {
	*testing.T
	url    string
	issuer token.Issuer
	pool   *pgxpool.Pool
}

func newServers(t *testing.T) *servers {
	client, prefix := testenv.Redis(t)
	s := &servers{T: t, issuer: &redistoken.Issuer{Client: client, Prefix: prefix}}
	s.url = bank.Database(t, transfer.Schema+"; INSERT INTO accounts VALUES (42, 100), (43, 100), (44, 100)")
	s.pool = s.open(nil).pool
	return s
}

// program is an instance of the program.
type program struct {
	pool *pgxpool.Pool
	bank *transfer.Bank
}

// open starts an instance. If sleep is not nil, it stops the instance.
func (s *servers) open(sleep *sleep) program {
	config, err := pgxpool.ParseConfig(s.url)
	require.NoError(s, err)
	issuer, ttl := s.issuer, kept
	if sleep != nil {
		ttl = sleep.ttl
		config.ConnConfig.Tracer, config.PrepareConn = sleep, sleep.lent
		issuer = pausable{issuer, sleep}
	}
	pool, err := pgxpool.NewWithConfig(s.Context(), config)
	require.NoError(s, err)
	s.Cleanup(pool.Close)
	fence := &sqlguard.Guard{DB: pool, IdleTimeout: ttl}
	return program{pool, &transfer.Bank{Locks: &lock.Locker{Issuer: issuer, TTL: ttl, Claim: fence.Admit}, Fence: fence}}
}

func (s *servers) requireBalances(want ...int64) {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), "SELECT balance FROM accounts ORDER BY id")
	require.NoError(s, err)
	balances, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(s, err)
	require.Equal(s, want, balances)
}
