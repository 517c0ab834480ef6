package fairness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

// crew is the waiters of one process.
type crew struct {
	order
	issuer token.Issuer

	mu   sync.Mutex
	says *json.Encoder
}

// takeTurns is what a process does: it obeys two orders.
func takeTurns(in io.Reader, out io.Writer) error {
	orders := json.NewDecoder(in)
	c := &crew{says: json.NewEncoder(out)}
	if err := orders.Decode(&c.order); err != nil {
		return err
	}
	iss, leave, err := issuers[c.Issuer](context.Background(), c.order)
	if err != nil {
		return err
	}
	defer leave()
	if c.issuer = iss; c.Polls {
		c.issuer = polled{iss}
	}
	c.say(turn{Ready: true})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var working sync.WaitGroup
	for n := range c.Waiters {
		working.Go(func() { c.wait(ctx, fmt.Sprintf("%s/%d", c.Process, n)) })
	}
	err = orders.Decode(new(order)) // that to stop
	stop()
	working.Wait()
	c.say(turn{Over: true})
	return err
}

// polled hides what else an issuer can do.
type polled struct{ token.Issuer }

// wait takes one waiter's turns.
func (c *crew) wait(ctx context.Context, name string) {
	locker := token.Locker{Issuer: c.issuer, Name: name, TTL: c.TTL}
	for ctx.Err() == nil {
		t := turn{Waiter: name, Asked: now()}
		err := locker.Hold(ctx, resource, func(ctx context.Context) error {
			t.Got = now()
			tok, err := token.FromContext(ctx, resource)
			t.Number = tok.Number
			c.say(t)
			time.Sleep(c.Work)
			t.Done, t.Lost = now(), errors.Is(context.Cause(ctx), token.ErrLost)
			return err
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, token.ErrLost) {
			t.Failure = err.Error()
		}
		c.say(t)
	}
}

func (c *crew) say(t turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.says.Encode(t) // nobody to tell: the end of the input follows
}

func now() int64 { return time.Now().UnixNano() }
