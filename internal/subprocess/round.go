package subprocess

import (
	"context"
	"fmt"
	"time"
)

// Round is one round of a rig that has a successor: A is paused at a point of
// its work, B acts, and A resumes with what it knew. A rig chooses what pauses and what an
// answer is.
//
//	A   works ── Pause ─▶ z  z  z  z  z  z  z ── Resume ─▶ writes, and answers
//	B                     Act: waits, writes
type Round struct {
	// Pause lets A come to its point, and returns when A is paused there.
	Pause func(context.Context) error
	// Act returns when B has acted, or when B must wait for A.
	Act func(context.Context) error
	// Resume continues A, and returns when A has answered.
	Resume func(context.Context) error
}

// Run takes the steps in their order, each within limit. It returns the error of the first
// that fails, after which A is possibly still paused.
func (r Round) Run(ctx context.Context, limit time.Duration) error {
	for _, step := range []func(context.Context) error{r.Pause, r.Act, r.Resume} {
		if err := within(ctx, limit, step); err != nil {
			return err
		}
	}
	return nil
}

func within(ctx context.Context, limit time.Duration, step func(context.Context) error) error {
	ctx, cancel := Within(ctx, limit)
	defer cancel()
	return step(ctx)
}

// Within returns the context of a step that only a hang does not end within limit. Its
// cause then states that.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("subprocess: nothing happened within %s", limit))
}

// WhileStopped stops the children, each at whatever instruction it has reached, calls act
// when all are stopped, and continues them. It returns an error if a child has ended, and
// the cause of ctx if ctx ends before all are stopped.
func WhileStopped[T any](ctx context.Context, act func(), children ...*Process[T]) error {
	for _, p := range children {
		if err := p.Stop(); err != nil {
			return err
		}
	}
	for _, p := range children {
		if err := p.Stands(ctx); err != nil {
			return err
		}
	}
	act()
	for _, p := range children {
		if err := p.Continue(); err != nil {
			return err
		}
	}
	return nil
}
