package pgxpoint_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
)

// A write under a context of no simulation is only counted.
func TestWritesUnderAnotherContextAreNoted(t *testing.T) {
	t.Parallel()
	given, schema := testenv.Postgres(t)
	config := given.Config().Copy()
	config.ConnConfig.Tracer = pgxpoint.Tracer{}
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = given.Exec(t.Context(), "CREATE TABLE "+schema+".unheard_writes (id int)")
	require.NoError(t, err)
	var mu sync.Mutex
	var heard []failpoint.Unheard
	t.Cleanup(failpoint.WatchUnheard(func(write failpoint.Unheard) { // of other tests too
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, write)
	}))
	const insert = "INSERT INTO unheard_writes VALUES (1)"
	none := context.Background()
	_, err = pool.Exec(none, insert)
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(none, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(none, insert)
		return err
	}))
	b := &pgx.Batch{}
	b.Queue("SELECT 1")
	b.Queue(insert)
	require.NoError(t, pool.SendBatch(none, b).Close())
	require.NoError(t, pool.QueryRow(none, "SELECT count(*) FROM unheard_writes").Scan(new(int)))

	var h hooktest.Record
	listening := h.Listen(none)
	_, err = pool.Exec(failpoint.Untraced(none), insert)
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(listening, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(none, insert) // the transaction has a listener
		return err
	}))

	source := h.Notes[0].(failpoint.Sent).Source
	require.NotNil(t, source)
	mu.Lock()
	defer mu.Unlock()
	n := 0
	for _, write := range heard {
		if write.Source == source {
			require.Equal(t, insert, write.SQL)
			n++
		}
	}
	require.Equal(t, 3, n)
}
