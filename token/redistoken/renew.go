package redistoken

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
)

// maxBatch is how many leases one pipeline renews. A longer pipeline would delay the
// server's other clients for too long.
const maxBatch = 1000

// Renew implements [token.Issuer]. The ttl is rounded down to whole milliseconds; less
// than one is an error. Renew returns [token.ErrLost] if the token's holder does not have
// the lock.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	ttl, err := wholeMilliseconds(ttl)
	if err != nil {
		return time.Time{}, err
	}
	k, err := i.keys(tok.Resource)
	if err != nil {
		return time.Time{}, fmt.Errorf("redistoken: renew %s: %w", tok, err)
	}
	sent := time.Now()
	i.state.mayExtend(k.lock, tok.Holder, sent.Add(ttl))
	reply, err := i.run(ctx, renewScript, k, tok.Holder, ttl.Milliseconds())
	if err != nil {
		return time.Time{}, fmt.Errorf("redistoken: renew %s: %w", tok, err)
	}
	if err := i.renewed(k, tok, reply, sent.Add(ttl)); err != nil {
		return time.Time{}, err
	}
	return sent.Add(ttl), nil
}

// renewed returns nil or an error for the reply of renew.lua.
func (i *Issuer) renewed(k *keys, tok token.Token, reply any, until time.Time) error {
	switch reply {
	case int64(1):
		i.state.extend(k.lock, tok.Holder, until)
		return nil
	case int64(0):
		return lost(tok)
	}
	return fmt.Errorf("redistoken: renew %s: %w", tok, unexpected(reply))
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

// renewal is one element of a batch with its command.
type renewal struct {
	*token.Renewal
	keys *keys
	ttl  time.Duration
	cmd  *command
}

func (i *Issuer) renewBatch(ctx context.Context, batch []token.Renewal) {
	sent := time.Now()
	renewals := make([]renewal, 0, len(batch))
	for n := range batch {
		b := &batch[n]
		ttl, err := wholeMilliseconds(b.TTL)
		k, invalid := i.keys(b.Token.Resource)
		if b.Err = err; err != nil {
			continue
		}
		if invalid != nil {
			b.Err = fmt.Errorf("redistoken: renew %s: %w", b.Token, invalid)
			continue
		}
		i.state.mayExtend(k.lock, b.Token.Holder, sent.Add(ttl))
		c := newCommand(ctx, renewScript, k, b.Token.Holder, ttl.Milliseconds())
		renewals = append(renewals, renewal{Renewal: b, keys: k, ttl: ttl, cmd: c})
	}
	err := i.sendRenewals(ctx, renewals)
	for _, r := range renewals {
		if err != nil {
			r.Err = fmt.Errorf("redistoken: renew %s: %w", r.Token, err)
			continue
		}
		i.finishRenewal(ctx, r, sent)
	}
}

// sendRenewals returns nil when all replies have arrived, and an error if ctx ends first.
// After an error, the commands may still be written to.
func (i *Issuer) sendRenewals(ctx context.Context, renewals []renewal) error {
	if err := context.Cause(ctx); err != nil || len(renewals) == 0 {
		return err
	}
	_, err := withContext(ctx, func() (any, error) {
		byHash := make([]redis.Cmder, len(renewals))
		for n, r := range renewals {
			byHash[n] = &r.cmd.cmd
		}
		i.sendPipeline(ctx, byHash)
		var byText []redis.Cmder
		for _, r := range renewals {
			// The server may have lost the script and still have the lock.
			if r.cmd.needsEval(ctx) {
				byText = append(byText, r.cmd.eval)
			}
		}
		i.sendPipeline(ctx, byText)
		return nil, nil
	})
	return err
}

func (i *Issuer) finishRenewal(ctx context.Context, r renewal, sent time.Time) {
	reply, err := r.cmd.reply(ctx)
	if err != nil {
		r.Err = fmt.Errorf("redistoken: renew %s: %w", r.Token, err)
		return
	}
	until := sent.Add(r.ttl)
	if r.Err = i.renewed(r.keys, r.Token, reply, until); r.Err == nil {
		r.Until = until
	}
}
