package pglock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/bench/crowd"
	"github.com/fencepost/fencepost/bench/measure"
)

const (
	pause = time.Millisecond
	think = 3 * time.Millisecond
	floor = "a channel"
	trip  = "an update"
)

// trial is how a lock passes from one to the next.
func (g *Group) trial() measure.Trial {
	like := crowd.Crowd{Waiters: waiters, Hold: pause, Think: think}
	alone := like
	alone.Lock = crowd.Channel()
	t := measure.Trial{
		Name: "waiters", Shortest: 300 * time.Millisecond, Longest: 5 * time.Second, WarmUp: 100 * time.Millisecond,
		Sides: []measure.Side{
			{Name: floor, Run: alone.Run},
			{Name: trip, Run: crowd.Ask(pause, func(ctx context.Context) error { return g.update(ctx, 0) })},
		},
	}
	for _, s := range g.sides {
		t.Sides = append(t.Sides, measure.Side{Name: s.name, Run: s.crowd(like)})
		t.Ratios = append(t.Ratios, crowd.Compared{
			Name: fmt.Sprintf("%d waiters, %s", waiters, s.name), Side: s.name,
			Floor: floor, Trips: []string{trip}, Sent: "packets",
		}.Ratios()...)
	}
	return t
}

// blocks are numbered: what is left behind at the end of one must not hold up the
// next.
var blocks atomic.Int64

// crowd has each waiter use its own lock of the side.
func (s *side) crowd(like crowd.Crowd) measure.Run {
	return func(ctx context.Context, d time.Duration) (measure.Reading, error) {
		resource := fmt.Sprintf("branch/%d", blocks.Add(1))
		like.Sent = s.sent.Packets
		like.Lock = func(ctx context.Context, waiter int) (func(context.Context) error, error) {
			return s.locks[waiter].Wait(ctx, resource)
		}
		return like.Run(ctx, d)
	}
}
