package sqlpoint_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
)

// A write under a context of no simulation is only counted.
func TestWritesUnderAnotherContextAreNoted(t *testing.T) {
	t.Parallel()
	db, err := sqlpoint.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "unheard.db")))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	var mu sync.Mutex
	var heard []failpoint.Unheard
	t.Cleanup(failpoint.WatchUnheard(func(write failpoint.Unheard) { // of other tests too
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, write)
	}))
	exec := func(ctx context.Context, query string) {
		t.Helper()
		_, err := db.ExecContext(ctx, query)
		require.NoError(t, err)
	}
	const insert = "INSERT INTO unheard_writes VALUES (1)"
	none := context.Background()
	exec(none, "CREATE TABLE unheard_writes (id int)")
	exec(none, insert)
	prepared, err := db.PrepareContext(none, insert)
	require.NoError(t, err)
	_, err = prepared.ExecContext(none)
	require.NoError(t, err)
	require.NoError(t, prepared.Close())
	tx, err := db.BeginTx(none, nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(none, insert)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.NoError(t, db.QueryRowContext(none, "SELECT count(*) FROM unheard_writes").Scan(new(int)))

	var h hooktest.Record
	listening := h.Listen(none)
	exec(failpoint.Untraced(none), insert)
	exec(listening, insert)
	begun, err := db.BeginTx(listening, &sql.TxOptions{})
	require.NoError(t, err)
	_, err = begun.ExecContext(none, insert) // the transaction has a listener
	require.NoError(t, err)
	require.NoError(t, begun.Commit())

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
