package schedulers

import (
	"github.com/go-co-op/gocron/v2"

	"github.com/fencepost/fencepost/lock"
)

// Gocron returns a scheduler that runs job on the instance that leads. Start it on every
// instance, beside the Run of its candidate.
func Gocron(candidate *lock.Candidate, job *Job) (gocron.Scheduler, error) {
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(candidate))
	if err != nil {
		return nil, err
	}
	_, err = s.NewJob(gocron.DurationJob(job.Every), gocron.NewTask(func() error {
		ctx, err := candidate.Context() // once, before the first read
		if err != nil {
			return err
		}
		return job.Run(ctx)
	}), gocron.WithSingletonMode(gocron.LimitModeReschedule))
	return s, err
}
