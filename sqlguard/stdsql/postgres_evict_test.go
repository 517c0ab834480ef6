package stdsql_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// hazard G8
func TestPostgresAHolderThatIsNotIdleIsEvicted(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	older := holding(t, 33, "a")
	begun, over := make(chan struct{}), make(chan struct{})
	wake := sync.OnceFunc(func() { close(over) })
	defer wake()
	unbounded := db.guard()
	unbounded.Idle = -1
	late := make(chan error, 1)
	go func() {
		late <- unbounded.Update(older, account, func(tx *sql.Tx) error {
			if err := write(older, tx, 0); err != nil {
				return err
			}
			rows, err := tx.QueryContext(older, "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")
			if err != nil {
				return err
			}
			defer rows.Close()
			rows.Next()
			close(begun)
			<-over // with a result that it does not read
			for rows.Next() {
			}
			return rows.Err()
		})
	}()
	<-begun

	ctx, cancel := context.WithTimeout(t.Context(), 5*short)
	defer cancel()
	err := unbounded.Admit(ctx, tok(34, "b"))
	require.ErrorIs(t, err, context.DeadlineExceeded, "the twin without a bound must wait")

	bounded := db.guard()
	bounded.Idle = short
	newer := holding(t, 34, "b")
	require.NoError(t, bounded.Update(newer, account, add(newer, 10)))
	wake()
	require.Error(t, <-late)
	require.Equal(t, 110, balance(t, db))
}
