package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// caller is a holder in the worst case: it does not notice that its lease has ended, and
// does not release the lock.
type caller struct {
	*worker
	order
	issuer token.Issuer
	client *http.Client

	tok token.Token
	ops []history.Op
}

// call runs a caller: it does one unit for each order.
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
	return subprocess.Each(w.Parent, func(o order) error {
		c.order, c.ops = o, nil
		if err := c.unit(ctx); err != nil {
			return err
		}
		c.Report(event{Ops: c.ops})
		return nil
	})
}

// unit ends with the first write that is not acknowledged.
func (c *caller) unit(ctx context.Context) error {
	if err := c.acquire(ctx); err != nil {
		return err
	}
	ctx = token.NewContext(ctx, c.tok)
	text, err := c.send(ctx, http.MethodGet, nil)
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
			return nil // the error is among the ops
		}
		if err := c.pass(written); err != nil {
			return err
		}
		c.Stand = nowhere // it applied to the first write only
	}
	return nil
}

// put writes, and records the answer.
func (c *caller) put(ctx context.Context, n, balance int) error {
	op := history.Op{Kind: history.Write, Writer: c.Name + strconv.Itoa(n), Resource: c.tok.Resource, Number: c.tok.Number, Holder: c.tok.Holder, Began: c.now()}
	_, err := c.send(ctx, http.MethodPut, c.body(op.Writer, balance))
	op.Outcome, op.Ended = history.OutcomeOf(err), c.now()
	c.ops = append(c.ops, op)
	return err
}

// pass returns at once, or after this process has been stopped and continued. Later
// requests go to the other replica if the order requires it.
func (c *caller) pass(s stand) error {
	if c.Stand != s {
		return nil
	}
	c.Stand, c.Before = nowhere, c.After
	return subprocess.StopThread()
}

// ttl is short: a stopped caller does not renew, and its successor waits this long.
const ttl = 5 * time.Millisecond

// acquire waits for the lock.
func (c *caller) acquire(ctx context.Context) error {
	op := history.Op{Kind: history.Acquire, Writer: c.Name, Resource: "account/" + c.Account, Outcome: history.Accepted, Began: c.now()}
	op.Holder = c.Name + ":" + c.Account
	for ; ; time.Sleep(time.Millisecond) { // and tries again
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

// send sends a request and returns the answer. A refusal is an error of the transport.
func (c *caller) send(ctx context.Context, method string, body io.Reader) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Before+c.Way+"/accounts/"+c.Account, body)
	if err != nil {
		return "", err
	}
	if method == http.MethodPut {
		req.Header.Set(standHeader, string(c.Stand))
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusServiceUnavailable:
		return "", fmt.Errorf("%w: %s", guard.ErrRetryable, text)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: %s: %s", guard.ErrUnknown, resp.Status, text)
	}
	return string(text), nil
}

// body returns an [entry]. If the caller is to be stopped in the middle of it, its length
// is unknown to the transport, which then sends each half when it has read it: the first
// half has been sent when the second is read.
func (c *caller) body(id string, balance int) io.Reader {
	first, second := id+"\n", fmt.Sprintln(balance)
	if c.Stand != halfway {
		return strings.NewReader(first + second)
	}
	return io.MultiReader(strings.NewReader(first), stopping{}, strings.NewReader(second))
}

// stopping is an empty reader. This process is stopped during its Read.
type stopping struct{}

func (stopping) Read([]byte) (int, error) {
	if err := subprocess.StopThread(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}
