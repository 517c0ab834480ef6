package pgtoken_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// packetsOfACall are how many packets a call takes in each mode.
var packetsOfACall = map[pgx.QueryExecMode]int64{
	pgx.QueryExecModeCacheStatement: 1,
	pgx.QueryExecModeCacheDescribe:  1,
	pgx.QueryExecModeDescribeExec:   2,
	pgx.QueryExecModeExec:           1,
	pgx.QueryExecModeSimpleProtocol: 1,
}

// hazard P8
func TestEveryModeInOnePacketACall(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	for mode, packets := range packetsOfACall {
		t.Run(mode.String(), func(t *testing.T) {
			var sent atomic.Int64
			iss := closed(t, &pgtoken.Issuer{DB: counting(t, mode, &sent), Schema: schema})
			everyVerb(t, iss, func(_ string, call func()) { call() }) // prepares the statements
			everyVerb(t, iss, func(verb string, call func()) {
				before := sent.Load()
				call()
				require.Equal(t, packets, sent.Load()-before, verb)
			})
		})
	}
}

// counting returns a pool of one connection that counts its packets.
func counting(t *testing.T, mode pgx.QueryExecMode, sent *atomic.Int64) *pgxpool.Pool {
	t.Helper()
	return pgtest.Connect(t, func(config *pgxpool.Config) {
		pgtest.One(config)
		config.ConnConfig.DefaultQueryExecMode = mode
		countPackets(config, sent)
	})
}

// countPackets counts only the packets of calls: it turns off the ping of a connection
// that was idle for a second.
func countPackets(config *pgxpool.Config, sent *atomic.Int64) {
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pgtest.Wrap(config, func(conn net.Conn) (net.Conn, error) { return countingConn{conn, sent}, nil })
}

func everyVerb(t *testing.T, iss *pgtoken.Issuer, do func(verb string, call func())) {
	t.Helper()
	var tok token.Token
	do("acquire", func() { tok = pgtest.Acquire(t, iss, "a") })
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
	do("raise", func() { require.ErrorIs(t, iss.Recover(t.Context(), resource, 1), token.ErrLost) })
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

// hazard P3
func TestOpenTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	savepoint, err := tx.Begin(t.Context())
	require.NoError(t, err)

	tok := token.Token{Resource: resource, Number: 1, Holder: "a"}
	for db, text := range map[pgtoken.DB]string{
		tx: "DB is a transaction", savepoint: "DB is a transaction",
		conn: "inside a transaction", conn.Conn(): "inside a transaction",
	} {
		iss := &pgtoken.Issuer{DB: db, Schema: schema}
		_, err := iss.Acquire(t.Context(), resource, "a", long)
		require.ErrorContains(t, err, text)
		_, err = iss.Renew(t.Context(), tok, long)
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, iss.Release(t.Context(), tok), text)
	}
	require.Equal(t, byte('T'), conn.Conn().PgConn().TxStatus(), "the transaction is as it was")
	require.NoError(t, tx.Rollback(t.Context()))
	pgtest.Cycle(t, &pgtoken.Issuer{DB: conn, Schema: schema}, "a")
	pgtest.Cycle(t, &pgtoken.Issuer{DB: conn.Conn(), Schema: schema}, "b")
}

func TestSessionThatIsSerializableAndReadOnly(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	strict := pgtest.Connect(t, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	})
	iss := &pgtoken.Issuer{DB: strict, Schema: schema}
	earlier := pgtest.Cycle(t, iss, "earlier")
	change := "UPDATE " + pgtest.In(schema, "leases") + " SET number = number + 1"

	commit := begin(t, pool, change)
	waiting := start(t, iss, "a", long)
	pgtest.AwaitLockWaiters(t, pool, schema, 1)
	commit()
	a := <-waiting
	require.NoError(t, a.Err)
	require.Greater(t, a.Grant.Token.Number, earlier.Number)
	_, err := iss.Renew(t.Context(), a.Grant.Token, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), a.Grant.Token))

	t.Run("the session's own level fails where two meet", func(t *testing.T) {
		commit := begin(t, pool, change)
		failed := make(chan error, 1)
		go func() {
			failed <- pgx.BeginTxFunc(t.Context(), strict, pgx.TxOptions{AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "SELECT "+pgtest.In(schema, "acquire")+"($1, 'b', '1 h')", resource)
				return err
			})
		}()
		pgtest.AwaitLockWaiters(t, pool, schema, 1)
		commit()
		var server *pgconn.PgError
		require.ErrorAs(t, <-failed, &server)
		require.Equal(t, "40001", server.Code)
	})
}

// refusals is an Issuer that reports the first error of its waiters.
type refusals struct {
	*pgtoken.Issuer
	errs chan error
}

func (r *refusals) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := r.Issuer.Wait(ctx, resource, holder, ttl)
	select {
	case r.errs <- err:
	default:
	}
	return grant, err
}

// promoted is a DB whose server is promoted after it has refused a request.
type promoted struct {
	pgtoken.DB
	batches int
	promote func()
}

func (p *promoted) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if p.batches++; p.batches == 2 {
		p.promote()
	}
	return p.DB.SendBatch(ctx, b)
}

func TestAWaitSurvivesAFailover(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	testenv.Migrate(t, primary.URL())
	standby := primary.Standby()
	primary.CaughtUp()
	var granted []<-chan error
	for text, attrs := range map[string]string{
		"the request was sent to a standby": "any", "read only connection": "read-write", "server is in standby mode": "primary",
	} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec} {
			pool := pgtest.Pool(t, standby.URL(), func(config *pgxpool.Config) {
				one, err := pgx.ParseConfig("target_session_attrs=" + attrs)
				require.NoError(t, err)
				config.ConnConfig.ValidateConnect, config.ConnConfig.DefaultQueryExecMode = one.ValidateConnect, mode
			})
			waiter := &refusals{closed(t, &pgtoken.Issuer{DB: pool}), make(chan error, 1)}
			locker := &lock.Locker{Issuer: waiter, WaitTimeout: long, DangerouslyWithoutClaim: true}
			grant := make(chan error, 1)
			granted = append(granted, grant)
			go func() {
				grant <- locker.Hold(t.Context(), attrs+mode.String(), func(context.Context) error { return nil })
			}()
			err := <-waiter.errs
			require.ErrorIs(t, err, token.ErrUnreachable)
			require.ErrorContains(t, err, text)
			once := *locker
			once.NoWait = true
			err = once.Hold(t.Context(), "a", nil)
			require.ErrorIs(t, err, token.ErrUnreachable, "at once")
		}
	}
	during := &promoted{DB: pgtest.Pool(t, standby.URL(), nil), promote: standby.Promote}
	pgtest.Acquire(t, &pgtoken.Issuer{DB: during}, "during")
	require.Equal(t, 3, during.batches, "the request, the question, and the request again")
	for _, grant := range granted {
		require.NoError(t, <-grant)
	}
}

// A refusal with the code of a standby, by a server that is none, does not heal.
func TestAReadOnlyPrimaryIsNoOutage(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	pgtest.Exec(t, pool, "ALTER FUNCTION "+pgtest.In(schema, "try_acquire")+" SET transaction_read_only = on")
	err := refused(t, &pgtoken.Issuer{DB: pool, Schema: schema}, "a")
	require.ErrorContains(t, err, "25006")
	require.NotErrorIs(t, err, token.ErrUnreachable)
}
