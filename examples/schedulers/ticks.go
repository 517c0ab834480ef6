package schedulers

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

// Schema makes the tables of the examples. A job has a row before it first runs.
const Schema = `CREATE TABLE ticks (job text PRIMARY KEY, last timestamptz NOT NULL);
	CREATE TABLE offsets (stream text PRIMARY KEY, seq bigint NOT NULL)`

// Job is work that is due at each multiple of Every.
type Job struct {
	Resource string // that of the Candidate
	Pool     *pgxpool.Pool
	Fence    *sqlguard.Guard // over Pool
	Every    time.Duration
	Work     func(ctx context.Context, tx pgx.Tx, tick time.Time) error
}

// Run works on the ticks that are due, oldest first, under the token of ctx. If a leader
// has died, its successor thereby does what was missed.
func (j *Job) Run(ctx context.Context) error {
	var last time.Time
	if err := j.Pool.QueryRow(ctx, "SELECT last FROM ticks WHERE job = $1", j.Resource).Scan(&last); err != nil {
		return err
	}
	for tick := last.Add(j.Every); !tick.After(time.Now()); tick = tick.Add(j.Every) {
		unit := guard.Unit{Key: tick.UTC().Format(time.RFC3339Nano)}
		if _, err := j.Fence.Once(ctx, j.Resource, unit, func(tx pgx.Tx) ([]byte, error) {
			if err := j.Work(ctx, tx, tick); err != nil {
				return nil, err
			}
			_, err := tx.Exec(ctx, "UPDATE ticks SET last = $2 WHERE job = $1 AND last < $2", j.Resource, tick)
			return nil, err
		}); err != nil {
			return err
		}
	}
	return nil
}
