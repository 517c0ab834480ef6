package pgtoken

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

// maxParallel is how many leases are renewed separately at the same time, if other
// transactions had locked their rows.
const maxParallel = 4

// Renew implements [token.Issuer]. The ttl is rounded down to whole microseconds; less
// than one is an error. Renew returns [token.ErrLost] if the token's holder does not have
// the resource.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if err := checkTTL(ttl); err != nil {
		return time.Time{}, err
	}
	var renewed bool
	var waited microseconds
	sent := time.Now()
	err := i.renewal(ctx, renewSQL, []any{tok.Resource, tok.Holder, ttl.Microseconds()}, &renewed, &waited)
	if err == nil && !renewed {
		err = token.ErrLost
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("pgtoken: renew %s: %w", tok, err)
	}
	return until(sent, waited, ttl), nil
}

// RenewAll implements [token.BatchRenewer]. It takes one statement, one round trip and
// one commit. If another transaction has locked a lease's row, that lease is renewed
// after the others by a statement of its own, so that no other lease waits for it.
func (i *Issuer) RenewAll(ctx context.Context, batch []token.Renewal) {
	var asked []*token.Renewal
	var resources, holders []string
	var ttls []int64
	for k := range batch {
		r := &batch[k]
		if r.Err = checkToken(r.Token.Resource, r.Token.Holder, r.TTL); r.Err == nil {
			asked = append(asked, r)
			resources = append(resources, r.Token.Resource)
			holders = append(holders, r.Token.Holder)
			ttls = append(ttls, r.TTL.Microseconds())
		}
	}
	if len(asked) == 0 {
		return
	}
	var results []int64 // how long the statement waited, and then a result for each lease
	sent := time.Now()
	err := i.renewal(ctx, renewAllSQL, []any{resources, holders, ttls}, &results)
	if err == nil && len(results) != len(asked)+1 {
		err = fmt.Errorf("the server returned %d of %d results", len(results)-1, len(asked))
	}
	if err != nil {
		for _, r := range asked {
			r.Err = fmt.Errorf("pgtoken: renew %s: %w", r.Token, err)
		}
		return
	}
	i.finishRenewals(ctx, asked, results[1:], func(r *token.Renewal) time.Time {
		return until(sent, microseconds(results[0]), r.TTL)
	})
}

func (i *Issuer) finishRenewals(ctx context.Context, asked []*token.Renewal, results []int64, ends func(*token.Renewal) time.Time) {
	var group sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	for k, r := range asked {
		switch results[k] {
		case 1:
			r.Until = ends(r)
		case 0:
			r.Err = fmt.Errorf("pgtoken: renew %s: %w", r.Token, token.ErrLost)
		default: // its row was locked
			group.Go(func() {
				slots <- struct{}{}
				r.Until, r.Err = i.Renew(ctx, r.Token, r.TTL)
				<-slots
			})
		}
	}
	group.Wait()
}

// until returns the end of a lease that was requested at sent. The result is on this
// process's clock, and never later than the end on the server's. The server counts the
// ttl from when it had locked the row, and reports as waited how long that took. Without
// waited, a lease that was waited for longer than its ttl would have expired when the
// reply arrives, on every attempt. The wait cannot have been longer than the call; this
// bounds the effect of a server clock that is set during the call.
func until(sent time.Time, waited microseconds, ttl time.Duration) time.Time {
	return sent.Add(min(waited.duration(), time.Since(sent))).Add(ttl.Truncate(time.Microsecond))
}
