package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Schema makes the table of a Queue. Its index serves the search for due jobs.
const Schema = `CREATE TABLE jobs (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	payload text NOT NULL,
	due     timestamptz NOT NULL DEFAULT now(),
	tries   int NOT NULL DEFAULT 0,
	done    boolean NOT NULL DEFAULT false
);
CREATE INDEX ON jobs (due) WHERE NOT done`

// ErrEmpty is returned if no job is due.
var ErrEmpty = errors.New("queue: no job is due")

// Queue is the queue of one worker. Several workers share one database.
type Queue struct {
	DB     *pgxpool.Pool
	Worker string
	// Visible is how long a job that was taken is hidden from other workers. If it is too
	// short, work is done twice, but its result is written once.
	Visible time.Duration
}

// Job is a job that was taken.
type Job struct {
	ID      int64
	Payload string
	Tries   int
	tok     token.Token
}

// Context returns a context with the token of the claim.
func (j *Job) Context(ctx context.Context) context.Context { return token.NewContext(ctx, j.tok) }

// Put adds a job and returns its id. The job exists if and only if tx commits.
func Put(ctx context.Context, tx pgx.Tx, payload string) (id int64, err error) {
	err = tx.QueryRow(ctx, "INSERT INTO jobs (payload) VALUES ($1) RETURNING id", payload).Scan(&id)
	return id, err
}

const takeSQL = `UPDATE jobs SET due = clock_timestamp() + $1::interval, tries = tries + 1
	WHERE id = (SELECT id FROM jobs WHERE NOT done AND due <= clock_timestamp()
	            ORDER BY due LIMIT 1 FOR UPDATE SKIP LOCKED)
	RETURNING id, payload, tries`

// Take returns the job that has been due for longest, or ErrEmpty. From then on
// no other worker can complete it. If a worker is completing it at the same
// moment, one of the two calls returns guard.ErrRetryable.
func (q *Queue) Take(ctx context.Context) (*Job, error) {
	var job Job
	err := pgx.BeginFunc(ctx, q.DB, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, takeSQL, q.Visible).Scan(&job.ID, &job.Payload, &job.Tries); err != nil {
			return err
		}
		ctx, err := (&sqlguard.Guard{}).MintTx(ctx, tx, resource(job.ID), q.Worker+":"+rand.Text())
		if err != nil {
			return err
		}
		job.tok, err = token.FromContext(ctx, resource(job.ID))
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrEmpty
	}
	if err != nil {
		return nil, err
	}
	return &job, nil
}

// Complete writes the job's result and ends it, in one transaction. If another
// worker has taken the job since, it returns guard.ErrStale and writes nothing.
func (q *Queue) Complete(ctx context.Context, job *Job, result func(tx pgx.Tx) error) error {
	return sqlguard.Update(job.Context(ctx), q.DB, resource(job.ID), func(tx pgx.Tx) error {
		if err := result(tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE jobs SET done = true WHERE id = $1", job.ID)
		return err
	})
}

func resource(id int64) string { return fmt.Sprintf("job/%d", id) }
