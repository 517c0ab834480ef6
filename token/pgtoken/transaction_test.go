package pgtoken_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

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
	cycle(t, &pgtoken.Issuer{DB: conn, Schema: schema}, "a")
	cycle(t, &pgtoken.Issuer{DB: conn.Conn(), Schema: schema}, "b")
}

func TestSessionThatIsSerializableAndReadOnly(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	strict := connect(t, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	})
	iss := &pgtoken.Issuer{DB: strict, Schema: schema}
	earlier := cycle(t, iss, "earlier")
	change := "UPDATE " + in(schema, "leases") + " SET number = number + 1"

	commit := begin(t, pool, change)
	waiting := start(t, iss, "a", long)
	awaitWaiters(t, pool, schema, 1)
	commit()
	a := <-waiting
	require.NoError(t, a.err)
	require.Greater(t, a.grant.Token.Number, earlier.Number)
	_, err := iss.Renew(t.Context(), a.grant.Token, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), a.grant.Token))

	t.Run("the session's own level fails where two meet", func(t *testing.T) {
		commit := begin(t, pool, change)
		failed := make(chan error, 1)
		go func() {
			failed <- pgx.BeginTxFunc(t.Context(), strict, pgx.TxOptions{AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "SELECT "+in(schema, "acquire")+"($1, 'b', '1 h')", resource)
				return err
			})
		}()
		awaitWaiters(t, pool, schema, 1)
		commit()
		var server *pgconn.PgError
		require.ErrorAs(t, <-failed, &server)
		require.Equal(t, "40001", server.Code)
	})
}

// begin leaves a transaction open behind sql.
func begin(t *testing.T, pool *pgxpool.Pool, sql string) (commit func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(t.Context()) }) // gives the connection back if the test failed
	_, err = tx.Exec(t.Context(), sql)
	require.NoError(t, err)
	return func() {
		t.Helper()
		require.NoError(t, tx.Commit(t.Context()))
	}
}
