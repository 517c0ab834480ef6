package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/queue"
	"github.com/fencepost/fencepost/guard"
)

// There are eight workers. Four of them sleep past the timeout of each job.
func TestEveryJobIsPaidOnce(t *testing.T) {
	t.Parallel()
	const jobs = 40
	db := database(t, jobs)
	failed := make(chan error)
	for n := range 8 {
		go func() {
			q := &queue.Queue{DB: db, Worker: fmt.Sprint("worker", n), Visible: 20 * time.Millisecond}
			failed <- work(t.Context(), q, n%2 == 0)
		}()
	}
	for range 8 {
		require.NoError(t, <-failed)
	}
	require.Equal(t, jobs, paid(t, db))
}

// work runs until all jobs are done.
func work(ctx context.Context, q *queue.Queue, sleeps bool) error {
	for {
		var left int
		if err := q.DB.QueryRow(ctx, "SELECT count(*) FROM jobs WHERE NOT done").Scan(&left); err != nil || left == 0 {
			return err
		}
		job, err := q.Take(ctx)
		if err == nil {
			if sleeps {
				time.Sleep(rand.N(2 * q.Visible))
			}
			err = complete(ctx, q.DB, job)
		}
		switch {
		case errors.Is(err, queue.ErrEmpty):
			time.Sleep(time.Millisecond)
		case errors.Is(err, guard.ErrStale) && !sleeps:
			q.Visible *= 2 // too short for this machine
		case err != nil && !errors.Is(err, guard.ErrStale) && !errors.Is(err, guard.ErrRetryable) && !errors.Is(err, guard.ErrEvicted):
			return err
		}
	}
}
