package queue_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/examples/queue"
)

// complete pays for the job.
func complete(ctx context.Context, db *pgxpool.Pool, job *queue.Job) error {
	return (&queue.Queue{DB: db}).Complete(ctx, job, func(tx pgx.Tx) error { return pay(ctx, tx, job) })
}

func pay(ctx context.Context, tx pgx.Tx, job *queue.Job) error {
	_, err := tx.Exec(ctx, "INSERT INTO payments (job) VALUES ($1)", job.ID)
	return err
}

func paid(t *testing.T, db *pgxpool.Pool) (n int) {
	require.NoError(t, db.QueryRow(t.Context(), "SELECT count(*) FROM payments").Scan(&n))
	return n
}

func database(t *testing.T, jobs int) *pgxpool.Pool {
	pool := bank.Pool(t, queue.Schema+"; CREATE TABLE payments (job bigint NOT NULL)")
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for n := range jobs {
			if _, err := queue.Put(t.Context(), tx, fmt.Sprint("job ", n)); err != nil {
				return err
			}
		}
		return nil
	}))
	return pool
}
