package pgtoken_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/benchratio"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// The baseline is two updates of one row. If FENCEPOST_TEST_POSTGRES_URL names a server
// that waits for its disk, the baseline takes two fsyncs, and an acquisition with its
// release one. On other servers, this compares the work and the round trips.
func BenchmarkAcquireRelease(b *testing.B) { benchmark(b, false) }

// The mark is raised in the same statement.
func BenchmarkAcquireReleaseClaimed(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, claims bool) {
	pool, schema := testenv.Postgres(b)
	ctx, table := b.Context(), pgx.Identifier{schema, "plain"}.Sanitize()
	_, err := pool.Exec(ctx, "CREATE TABLE "+table+" (id int PRIMARY KEY, n int NOT NULL); INSERT INTO "+table+" VALUES (1, 1)")
	require.NoError(b, err)
	update := func() error {
		_, err := pool.Exec(ctx, "UPDATE "+table+" SET n = $1 WHERE id = 1", 7)
		return err
	}
	iss := &pgtoken.Issuer{DB: pool, Schema: schema, Claims: claims}
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
