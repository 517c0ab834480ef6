package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/queue"
	"github.com/fencepost/fencepost/guard"
)

func TestALateCompletionIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("when another worker has the job", func(t *testing.T) {
		t.Parallel()
		db := database(t, 1)
		late, next := overtaken(t, db)
		require.ErrorIs(t, complete(t.Context(), db, late), guard.ErrStale)
		require.Equal(t, 0, paid(t, db))
		require.NoError(t, complete(t.Context(), db, next))
		require.Equal(t, 1, paid(t, db))
	})
	t.Run("when another worker has completed it", func(t *testing.T) {
		t.Parallel()
		db := database(t, 1)
		late, next := overtaken(t, db)
		require.NoError(t, complete(t.Context(), db, next))
		require.ErrorIs(t, complete(t.Context(), db, late), guard.ErrStale)
		require.Equal(t, 1, paid(t, db))
	})
	t.Run("without the fence the job is completed twice", func(t *testing.T) {
		t.Parallel()
		db := database(t, 1)
		late, next := overtaken(t, db)
		for _, job := range []*queue.Job{late, next} {
			require.NoError(t, pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
				tag, err := tx.Exec(t.Context(), "UPDATE jobs SET done = true WHERE id = $1 AND tries > 0", job.ID)
				require.EqualValues(t, 1, tag.RowsAffected())
				return errors.Join(err, pay(t.Context(), tx, job))
			}))
		}
		require.Equal(t, 2, paid(t, db))
	})
}

// overtaken pauses a worker past its timeout, and lets another worker take the job.
func overtaken(t *testing.T, db *pgxpool.Pool) (late, next *queue.Job) {
	var err error
	late, err = (&queue.Queue{DB: db, Worker: "late"}).Take(t.Context())
	require.NoError(t, err)
	next, err = (&queue.Queue{DB: db, Worker: "next", Visible: time.Hour}).Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, late.ID, next.ID)
	require.Equal(t, 2, next.Tries)
	return late, next
}

func TestAJobThatWasTakenIsHidden(t *testing.T) {
	t.Parallel()
	db := database(t, 1)
	worker := &queue.Queue{DB: db, Worker: "one", Visible: time.Hour}
	job, err := worker.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, "job 0", job.Payload)
	_, err = worker.Take(t.Context())
	require.ErrorIs(t, err, queue.ErrEmpty)
	require.NoError(t, complete(t.Context(), db, job))
	_, err = (&queue.Queue{DB: db}).Take(t.Context())
	require.ErrorIs(t, err, queue.ErrEmpty)
}
