package handover

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/bench/crowd"
	"github.com/fencepost/fencepost/bench/measure"
)

const (
	floor = "a channel"
	again = "a channel again"

	// One round trip of the least that there is, and of the least that looks whose
	// a lock is.
	ping   = "a PING"
	script = "a script"
)

// trial is all sides with so many waiters.
func (g *Group) trial(waiters int, think, shortest time.Duration) measure.Trial {
	like := crowd.Crowd{Waiters: waiters, Hold: hold, Think: think}
	name := fmt.Sprintf("%d waiters", waiters)
	if think == 0 {
		name += " at once"
	}
	t := measure.Trial{
		Name: name, Shortest: shortest, Longest: 5 * time.Second, Rounds: 2, WarmUp: 30 * time.Millisecond,
		Sides: []measure.Side{
			{Name: floor, Run: channel(like)},
			{Name: ping, Run: crowd.Ask(hold, g.ping)}, {Name: script, Run: crowd.Ask(hold, g.script)},
		},
		Ratios: []measure.Ratio{{
			Name: name + ", a/a: " + crowd.WaitP99, Baseline: floor,
			Of: measure.Value{Side: again, Quantity: crowd.WaitP99}, Over: measure.Value{Side: floor, Quantity: crowd.WaitP99},
		}},
	}
	for _, s := range g.sides {
		t.Sides = append(t.Sides, measure.Side{Name: s.name, Run: s.crowd(like)})
		t.Ratios = append(t.Ratios, crowd.Compared{
			Name: name + ", " + s.name, Side: s.name, Floor: floor, Trips: []string{ping, script}, Sent: "commands",
			Targets: s.targets,
		}.Ratios()...)
	}
	t.Sides = append(t.Sides, measure.Side{Name: again, Run: channel(like)})
	return t
}

func channel(like crowd.Crowd) measure.Run {
	like.Lock = crowd.Channel()
	return like.Run
}

func (g *Group) ping(ctx context.Context) error { return g.client.Ping(ctx).Err() }

var look = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end return 0`)

func (g *Group) script(ctx context.Context) error {
	return look.Run(ctx, g.client, []string{"raw:account/42"}, "bench").Err()
}

// blocks are numbered: what a library leaves behind at the end of one must not
// hold up the next.
var blocks atomic.Int64

// crowd has each waiter use its own lock of the side.
func (s *side) crowd(like crowd.Crowd) measure.Run {
	return func(ctx context.Context, d time.Duration) (measure.Reading, error) {
		resource := fmt.Sprintf("account/%d", blocks.Add(1))
		like.Sent = s.sent.Commands
		like.Lock = func(ctx context.Context, waiter int) (func(context.Context) error, error) {
			return s.locks[waiter].Wait(ctx, resource)
		}
		return like.Run(ctx, d)
	}
}
