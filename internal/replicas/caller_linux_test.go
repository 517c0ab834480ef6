package replicas_test

import (
	"context"
	"net/http"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/child"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// caller is the worst holder there is: it never notices that its lease has
// ended, nor gives up the lock.
type caller struct {
	*worker
	order
	issuer token.Issuer
	client *http.Client

	tok token.Token
	ops []history.Op
}

func (w *worker) call(ctx context.Context) error {
	options, err := redis.ParseURL(w.Redis)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	c := &caller{
		worker: w, issuer: &redistoken.Issuer{Client: client, Prefix: w.Prefix},
		client: &http.Client{Transport: httpguard.Transport{Base: &http.Transport{}, Hosts: w.Replicas}},
	}
	return w.obey(func(o order) error {
		c.order, c.ops = o, nil
		if err := c.unit(ctx); err != nil {
			return err
		}
		c.say(event{Ops: c.ops})
		return nil
	})
}

// unit ends with the first write that is not acknowledged.
func (c *caller) unit(ctx context.Context) error {
	if err := c.acquire(ctx); err != nil {
		return err
	}
	ctx = token.NewContext(ctx, c.tok)
	text, err := c.ask(ctx, http.MethodGet, nil)
	if err != nil {
		return err
	}
	balance, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	if err := c.pass(read); err != nil {
		return err
	}
	for n := 1; n <= c.Writes; n++ {
		if c.put(ctx, n, balance+n) != nil {
			return nil // it is among the ops
		}
		if err := c.pass(written); err != nil {
			return err
		}
		c.Stand = nowhere // was in the first, if at all
	}
	return nil
}

// put writes, and puts down what it was told.
func (c *caller) put(ctx context.Context, n, balance int) error {
	op := history.Op{Kind: history.Write, Writer: c.Name + strconv.Itoa(n), Resource: c.tok.Resource, Number: c.tok.Number, Holder: c.tok.Holder, Began: c.now()}
	_, err := c.ask(ctx, http.MethodPut, c.body(op.Writer, balance))
	op.Outcome, op.Ended = simulations.Outcome(err), c.now()
	c.ops = append(c.ops, op)
	return err
}

// pass returns at once, or when this process has been stopped and continued.
// What is asked after that is asked of the other replica, if the order says so.
func (c *caller) pass(s stand) error {
	if c.Stand != s {
		return nil
	}
	c.Stand, c.Before = nowhere, c.After
	return child.StopThread()
}
