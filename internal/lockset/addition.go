package lockset

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// adder adds to the set of one way, one value after the other.
type adder struct {
	*worker
	way    Way
	set    string // also what the lock and the fence are named
	locker token.Locker
	random *rand.Rand
}

// add takes the lock and adds value. The error is for what did not even begin:
// once it has begun, the end of ctx, which is that of the run, does not end it.
func (a *adder) add(ctx context.Context, value int64) error {
	holding, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	begins := context.AfterFunc(ctx, cancel)
	held := false
	err := a.locker.Hold(holding, a.set, func(ctx context.Context) error {
		if held = begins(); !held {
			return ctx.Err()
		}
		a.say(event{Kind: begun, Way: a.way, Value: value})
		a.answer(value, a.try(ctx, value))
		return nil
	})
	switch {
	case held: // what became of the lock afterwards is nobody's concern
		return nil
	case guard.Refusal(err): // the claim
		a.answer(value, err)
		return nil
	}
	return err
}

// try is one addition under the lock. From here on, nobody but a watched one
// looks at its lease.
func (a *adder) try(ctx context.Context, value int64) error {
	tok, err := token.FromContext(ctx, a.set)
	if err != nil {
		return err
	}
	if a.way != Watched {
		ctx = context.WithoutCancel(ctx)
	}
	switch a.way {
	case Transaction:
		return a.fence.Update(ctx, a.set, func(tx pgx.Tx) error { return a.change(ctx, tok, value, tx, tx) })
	case FenceOnWrite, Claimed:
		return a.change(ctx, tok, value, a.pool, a.fence.On(a.set))
	}
	return a.change(ctx, tok, value, a.pool, plain{a.pool})
}

// answer reports how an addition came out.
func (a *adder) answer(value int64, err error) {
	a.say(event{Kind: answered, Way: a.way, Value: value, Answer: outcome(err)})
}

func outcome(err error) answer {
	switch {
	case err == nil:
		return acknowledged
	case errors.Is(err, guard.ErrUnknown):
		return unknown
	case guard.Refusal(err):
		return refused
	}
	return failed
}
