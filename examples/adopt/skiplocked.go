package adopt

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
)

// SkipLocked claims the next job and numbers the claim, in one transaction.
func SkipLocked(ctx context.Context, pool *pgxpool.Pool, worker string) (id int64, job context.Context, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, nextJob).Scan(&id); err != nil {
			return err
		}
		job, err = (&sqlguard.Guard{}).MintTx(ctx, tx, fmt.Sprintf("job/%d", id), worker+":"+rand.Text())
		return err
	})
	return id, job, err
}

// Done completes a job, unless another worker has claimed it since.
func Done(job context.Context, pool *pgxpool.Pool, id int64) error {
	db := (&sqlguard.Guard{DB: pool}).On(fmt.Sprintf("job/%d", id))
	_, err := db.Exec(job, "UPDATE jobs SET state = 'done' WHERE id = $1", id)
	return err
}

const nextJob = `UPDATE jobs SET state = 'running', due = now() + interval '1 minute' WHERE id = (
	SELECT id FROM jobs WHERE state <> 'done' AND due <= now() ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING id`
