package schedulers

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/fencepost/fencepost/sqlguard"
)

// RiverMint returns a middleware that numbers each attempt at a job. River gives a job that
// looks stuck to another worker; from then on, the writes of the earlier one are refused.
func RiverMint(fence *sqlguard.Guard) rivertype.WorkerMiddleware {
	return river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		ctx, err := fence.Mint(ctx, riverResource(job), fmt.Sprintf("attempt-%d:%s", job.Attempt, rand.Text()))
		if err != nil {
			return err
		}
		return work(ctx)
	})
}

// RiverWorker applies a job's effect and completes the job, in one guarded transaction.
type RiverWorker[A river.JobArgs] struct {
	river.WorkerDefaults[A]
	Fence *sqlguard.Guard
	Apply func(ctx context.Context, tx pgx.Tx, args A) error
}

// Work implements [river.Worker].
func (w *RiverWorker[A]) Work(ctx context.Context, job *river.Job[A]) error {
	return w.Fence.Update(ctx, riverResource(job.JobRow), func(tx pgx.Tx) error {
		if err := w.Apply(ctx, tx, job.Args); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

func riverResource(job *rivertype.JobRow) string { return fmt.Sprintf("river/%d", job.ID) }
