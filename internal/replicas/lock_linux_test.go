package replicas_test

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// ttl is short: nobody who stands renews, and a successor waits for this long.
const ttl = 5 * time.Millisecond

// acquire waits for the lock.
func (c *caller) acquire(ctx context.Context) error {
	op := history.Op{Kind: history.Acquire, Writer: c.Name, Resource: "account/" + c.Account, Outcome: history.Accepted, Began: c.now()}
	op.Holder = c.Name + ":" + c.Account
	for ; ; time.Sleep(time.Millisecond) { // and asks again
		grant, err := c.issuer.Acquire(ctx, op.Resource, op.Holder, ttl)
		switch {
		case errors.Is(err, token.ErrHeld):
			continue
		case err != nil:
			return err
		}
		c.tok, op.Number, op.Ended = grant.Token, grant.Token.Number, c.now()
		c.ops = append(c.ops, op)
		return nil
	}
}
