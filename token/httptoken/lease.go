package httptoken

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/depose"
	"github.com/fencepost/fencepost/token"
)

// leaveTimeout bounds a release whose client does not wait for it.
const leaveTimeout = 2 * time.Second

// lease is the reply to an acquisition and to a renewal.
type lease struct {
	Token     string `json:"token,omitempty"`
	Number    int64  `json:"number,omitempty"`
	ExpiresIn int64  `json:"expires_in_ms"`
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// newLease returns a reply about a lease that lasts until the given time, counted from now.
func newLease(until time.Time) (lease, error) {
	reply := lease{ExpiresIn: time.Until(until).Milliseconds()}
	if reply.ExpiresIn <= 0 {
		return reply, fmt.Errorf("%w: the lease had ended when the issuer replied", token.ErrUnreachable)
	}
	return reply, nil
}

func (c *call) acquire() (any, error) {
	if c.request == "" {
		c.request = rand.Text()
	}
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	ctx, done := c.enter(c.Context(), c.place(id))
	defer done()
	grant, err := c.Issuer.Acquire(ctx, c.name, id, ms(c.ttl))
	if errors.Is(err, token.ErrHeld) && c.wait > 0 {
		grant, err = c.waitFor(ctx, id, err)
	}
	if err != nil {
		return nil, err
	}
	reply, err := newLease(grant.Until)
	if err == nil {
		reply.Number = grant.Token.Number
		if reply.Token, err = c.text(grant.Token); err != nil {
			_ = c.free(grant.Token)
		}
	}
	return reply, err
}

// waitFor waits for a lock that is held, while client goes on. The error of a wait that has
// ended is a [*token.HeldError].
func (c *call) waitFor(client context.Context, id string, held error) (grant token.Grant, err error) {
	if !c.count(1) {
		return grant, busy
	}
	defer c.count(-1)
	ctx, cancel := context.WithTimeout(client, ms(c.wait))
	defer cancel()
	if queue, ok := c.Issuer.(token.QueueIssuer); ok {
		grant, err = queue.Wait(ctx, c.name, id, ms(c.ttl))
	} else {
		grant, err = c.poll(ctx, client, id, held)
	}
	if err == nil && client.Err() != nil { // the lock is the next waiter's
		if err = c.free(grant.Token); err == nil || errors.Is(err, token.ErrLost) {
			err = held
		}
	}
	return grant, err
}

// poll repeats Acquire until ctx has ended, for an issuer without a queue. The end of ctx does not
// end an Acquire, of which the outcome would be uncertain.
func (c *call) poll(ctx, client context.Context, id string, held error) (grant token.Grant, err error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return grant, held
		case <-time.After(pause):
		}
		if grant, err = c.Issuer.Acquire(client, c.name, id, ms(c.ttl)); !errors.Is(err, token.ErrHeld) {
			return grant, err
		}
		held = err
	}
}

func (c *call) renew() (any, error) {
	tok, err := c.proof()
	if err != nil {
		return nil, err
	}
	until, err := c.Issuer.Renew(c.Context(), tok, ms(c.ttl))
	if err != nil {
		return nil, err
	}
	return newLease(until)
}

// release also ends a wait of the holder in this replica.
func (c *call) release() (any, error) {
	tok, err := c.proof()
	if err != nil {
		return nil, err
	}
	waiting, waits := c.turns.Load(c.place(tok.Holder))
	if waits {
		waiting.(*turn).end()
	}
	if err = c.free(tok); waits && errors.Is(err, token.ErrLost) {
		err = nil
	}
	return nil, err
}

// free releases a lock, also if its client disconnects.
func (c *call) free(tok token.Token) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), leaveTimeout)
	defer cancel()
	return c.Issuer.Release(ctx, tok)
}

// id returns the issuer's holder of the request: the label, and a hash. The request is a
// secret of its client, and the holder is visible in marks, errors and replies. So a reader
// of the holder cannot repeat the request, which would give it the lock.
func (c *call) id() (string, error) {
	if _, err := token.New(c.request, 1, c.holder); err != nil || len(c.holder) > MaxLabelBytes {
		return "", invalid.with(fmt.Sprintf("holder and request must be UTF-8 without control characters, not empty, and at most %d and %d bytes.",
			MaxLabelBytes, token.MaxNameBytes))
	}
	return depose.Holder(c.holder, sha256.Sum256([]byte(c.name+"\n"+c.holder+"\n"+c.request))), nil
}

// text returns the token as a value of the field Fencing-Token.
func (h *Handler) text(tok token.Token) (string, error) {
	if h.Keyring == nil {
		return httpguard.Format(tok)
	}
	signed, err := h.Keyring.Sign(tok, time.Time{})
	if err != nil {
		return "", err
	}
	return httpguard.FormatSigned(signed)
}

// proof returns the token of the lock that the client has: from the body, from the field
// Fencing-Token, or that of its holder and request. The last has no number, which issuers do
// not compare.
func (c *call) proof() (tok token.Token, err error) {
	values, own := c.Header[httpguard.Header], c.holder != "" || c.request != ""
	if c.token != "" {
		values = append(values[:len(values):len(values)], c.token)
	}
	if own && len(values) == 0 {
		id, err := c.id()
		return token.Token{Resource: c.name, Number: 1, Holder: id}, err
	}
	signed, err := httpguard.ParseSigned(values)
	switch {
	case own || err != nil || len(signed) != 1:
		return tok, invalid.with("The request needs a token, which is one member of the field " + httpguard.Header + ", or a holder and its request.")
	case signed[0].Token.Resource != c.name:
		return tok, invalid.with("The token is of another lock.")
	case c.Keyring != nil:
		err = c.Keyring.Verify(signed[0])
	}
	return signed[0].Token, err
}
