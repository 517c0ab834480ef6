package schedulers

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// Asynq enqueues a task of that type at each tick of spec while the candidate leads, until
// ctx ends. The payload is the token of the term.
func Asynq(ctx context.Context, candidate *lock.Candidate, redis asynq.RedisConnOpt, spec, taskType string) error {
	return candidate.Run(ctx, func(ctx context.Context) error {
		tok, err := token.FromContext(ctx, candidate.Resource)
		if err != nil {
			return err
		}
		payload, err := tok.MarshalText()
		if err != nil {
			return err
		}
		s := asynq.NewScheduler(redis, nil)
		if _, err := s.Register(spec, asynq.NewTask(taskType, payload)); err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		defer s.Shutdown()
		<-ctx.Done()
		return nil
	})
}

// AsynqHandler works on a task under the token that it carries, in any process. A task that
// a former leader has enqueued is refused, and a retry would be too.
func AsynqHandler(job *Job) asynq.HandlerFunc {
	return func(ctx context.Context, task *asynq.Task) error {
		var tok token.Token
		if err := tok.UnmarshalText(task.Payload()); err != nil {
			return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
		}
		err := job.Run(token.NewContext(ctx, tok))
		if errors.Is(err, guard.ErrStale) {
			return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
		}
		return err
	}
}
