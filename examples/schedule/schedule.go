package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// ErrDone is returned if another instance has done the tick's work, or is doing it.
var ErrDone = errors.New("schedule: another instance has this tick")

// Schema makes the table of a Schedule.
const Schema = "CREATE TABLE ticks (job text PRIMARY KEY, last timestamptz NOT NULL)"

// Schedule is the schedule of one instance. All instances share the locks and the
// database.
type Schedule struct {
	// Locks must have NoWait and a HoldAtLeast that is longer than the clocks of the
	// instances differ and shorter than the time between two ticks.
	Locks *lock.Locker
	Fence *sqlguard.Guard
}

// Tick returns the tick that now belongs to, in UTC on every instance.
func Tick(now time.Time, every time.Duration) time.Time { return now.UTC().Truncate(every) }

// Run does the work of a tick. It returns ErrDone if the tick is done. After any other
// error the work was not done, or its outcome is unknown: this or another instance may
// try again.
func (s *Schedule) Run(ctx context.Context, job string, tick time.Time,
	work func(ctx context.Context, tx pgx.Tx) error) error {
	resource := "schedule/" + job
	err := s.Locks.Hold(ctx, resource, func(ctx context.Context) error {
		return s.Fence.Update(ctx, resource, func(tx pgx.Tx) error {
			if err := begin(ctx, tx, job, tick); err != nil {
				return err
			}
			return work(ctx, tx)
		})
	})
	if errors.Is(err, token.ErrHeld) {
		return fmt.Errorf("%w: %w", ErrDone, err)
	}
	return err
}

const beginSQL = `INSERT INTO ticks (job, last) VALUES ($1, $2)
	ON CONFLICT (job) DO UPDATE SET last = EXCLUDED.last WHERE ticks.last < EXCLUDED.last`

// begin records the tick. It returns ErrDone unless the tick is newer than the last one.
func begin(ctx context.Context, tx pgx.Tx, job string, tick time.Time) error {
	tag, err := tx.Exec(ctx, beginSQL, job, tick)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrDone
	}
	return err
}
