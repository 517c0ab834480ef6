package redistoken

import (
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

// maxBatch is how many leases one pipeline renews. A longer pipeline would delay the
// server's other clients for too long.
const maxBatch = 1000

// Renew implements [token.Issuer]. The ttl is rounded down to whole milliseconds; less
// than one is an error. Renew returns [token.ErrLost] if the token's holder does not have
// the lock.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	r, err := i.newRenewal(ctx, tok, ttl)
	if err != nil {
		return time.Time{}, err
	}
	reply, err := i.do(ctx, r.command)
	return i.renewed(r, reply, err)
}

// renewal is the request to renew a token.
type renewal struct {
	*command
	tok   token.Token
	keys  *keys
	until time.Time // the end of the lease if the request succeeds
}

// newRenewal returns a request that is about to be sent.
func (i *Issuer) newRenewal(ctx context.Context, tok token.Token, ttl time.Duration) (*renewal, error) {
	ttl, err := wholeMilliseconds(ttl)
	if err != nil {
		return nil, err
	}
	k, err := i.keys(tok.Resource)
	if err != nil {
		return nil, fmt.Errorf("redistoken: renew %s: %w", tok, err)
	}
	until := time.Now().Add(ttl)
	i.state.mayExtend(k.lock, tok.Holder, until)
	return &renewal{newCommand(ctx, renewScript, k, tok.Holder, ttl.Milliseconds()), tok, k, until}, nil
}

// renewed converts the reply of renew.lua to the end of the lease.
func (i *Issuer) renewed(r *renewal, reply any, err error) (time.Time, error) {
	switch {
	case err != nil:
	case reply == int64(1):
		i.state.extend(r.keys.lock, r.tok.Holder, r.until)
		return r.until, nil
	case reply == int64(0):
		return time.Time{}, lost(r.tok)
	default:
		err = unexpected(reply)
	}
	return time.Time{}, fmt.Errorf("redistoken: renew %s: %w", r.tok, err)
}

// wholeMilliseconds rounds ttl down to the unit of Redis.
func wholeMilliseconds(ttl time.Duration) (time.Duration, error) {
	if ttl < time.Millisecond {
		return 0, fmt.Errorf("redistoken: ttl %s is less than 1ms", ttl)
	}
	return ttl.Truncate(time.Millisecond), nil
}

// RenewAll implements [token.BatchRenewer]. It takes one round trip for each 1,000 leases
// and server. Each ttl is rounded down to whole milliseconds; less than one is an error.
func (i *Issuer) RenewAll(ctx context.Context, batch []token.Renewal) {
	if len(batch) == 1 { // newer clients use separate connections for pipelines
		b := &batch[0]
		b.Until, b.Err = i.Renew(ctx, b.Token, b.TTL)
		return
	}
	for len(batch) > 0 {
		n := min(len(batch), maxBatch)
		i.renewBatch(ctx, batch[:n])
		batch = batch[n:]
	}
}

func (i *Issuer) renewBatch(ctx context.Context, batch []token.Renewal) {
	renewals := make([]*renewal, len(batch)) // nil if not valid
	var commands []*command
	for n, b := range batch {
		if renewals[n], batch[n].Err = i.newRenewal(ctx, b.Token, b.TTL); batch[n].Err == nil {
			commands = append(commands, renewals[n].command)
		}
	}
	if len(commands) == 0 {
		return
	}
	go i.sendBatch(ctx, commands)
	arrived := commands[len(commands)-1].wait(ctx) // sendBatch closes the last one's done last
	for n, r := range renewals {
		if r == nil {
			continue
		}
		reply, err := any(nil), context.Cause(ctx)
		if arrived {
			reply, err = r.reply(ctx)
		}
		batch[n].Until, batch[n].Err = i.renewed(r, reply, err)
	}
}
