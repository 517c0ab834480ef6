package stdsql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// commitUnderAReader runs update, whose COMMIT has to wait for a reader, as it
// does without a write-ahead log; waiting is called while it does. It returns
// once update has.
func commitUnderAReader(t *testing.T, settings string, h hooks, update func(db *database) error, waiting func()) error {
	t.Helper()
	file := newFile(t, rollback)
	writer, reader := onSQLite(t, file, settings), onSQLite(t, file, patient)
	writer.DB = writer.hooked(t, &h)
	result := make(chan error, 1)
	require.NoError(t, inTx(t, reader, func(tx *sql.Tx) error {
		_, err := read(t.Context(), tx)
		require.NoError(t, err)
		go func() { result <- update(writer) }()
		// Whoever waits to commit keeps new readers out.
		third := onSQLite(t, file, hasty)
		require.Eventually(t, func() bool {
			_, err := read(t.Context(), third)
			return err != nil || len(result) > 0
		}, time.Minute, time.Millisecond)
		waiting()
		return nil
	}))
	return <-result
}

// hazard G18
func TestACommitThatWaitsForAReaderIsNotCutOff(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"by the loss of the lease": &token.LostError{Token: tok(33, "a")},
		"by a caller who leaves":   context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancelCause(holding(t, 33, "a"))
			var db *database
			require.NoError(t, commitUnderAReader(t, patient, hooks{}, func(writer *database) error {
				db = writer
				return writer.update(ctx, add(ctx, 10))
			}, func() { leave(cause) }))
			require.Equal(t, 110, balance(t, db))
		})
	}
}
