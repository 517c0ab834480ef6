package pgadvisory_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/pgadvisory"
	"github.com/fencepost/fencepost/internal/test/benchratio"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// The baseline is that of BenchmarkAcquireRelease in package pgtoken: two updates of one
// row.
func BenchmarkAcquireRelease(b *testing.B) {
	pool, schema := testenv.Postgres(b)
	ctx, table := b.Context(), pgx.Identifier{schema, "plain"}.Sanitize()
	_, err := pool.Exec(ctx, "CREATE TABLE "+table+" (id int PRIMARY KEY, n int NOT NULL); INSERT INTO "+table+" VALUES (1, 1)")
	require.NoError(b, err)
	update := func() error {
		_, err := pool.Exec(ctx, "UPDATE "+table+" SET n = $1 WHERE id = 1", 7)
		return err
	}
	iss := &pgadvisory.Issuer{Pool: pool, Schema: schema}
	benchratio.Report(b,
		func() error {
			if err := update(); err != nil {
				return err
			}
			return update()
		},
		func() error {
			grant, err := iss.Acquire(ctx, "account/42", "worker-1", 10*time.Second)
			if err != nil {
				return err
			}
			return iss.Release(ctx, grant.Token)
		})
}
