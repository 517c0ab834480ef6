package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// ErrDone says that another instance has done the tick's work, or is doing it.
var ErrDone = errors.New("schedule: another instance has this tick")

// Schema is the table that a Schedule wants.
const Schema = "CREATE TABLE ticks (job text PRIMARY KEY, last timestamptz NOT NULL)"

// Schedule is one instance's. All instances share the locks and the database.
type Schedule struct {
	// Locks has an AtLeast: more than the clocks of the instances differ, and
	// less than the time between two ticks.
	Locks *token.Locker
	Fence *sqlguard.Guard
}

// Tick is the tick that now falls into, in UTC on every instance.
func Tick(now time.Time, every time.Duration) time.Time { return now.UTC().Truncate(every) }

// Run does the work of a tick, unless it is done: ErrDone. Any other error means
// that it was not, or not for certain: another instance, or this one, may try.
func (s *Schedule) Run(ctx context.Context, job string, tick time.Time,
	work func(ctx context.Context, tx pgx.Tx) error) error {
	resource := "schedule/" + job
	err := s.Locks.TryHold(ctx, resource, func(ctx context.Context) error {
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

// begin writes the tick down, where it is newer than the last one.
func begin(ctx context.Context, tx pgx.Tx, job string, tick time.Time) error {
	tag, err := tx.Exec(ctx, beginSQL, job, tick)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrDone
	}
	return err
}
