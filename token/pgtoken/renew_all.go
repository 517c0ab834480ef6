package pgtoken

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/token"
)

// apart is how many leases are renewed one by one at once, where somebody else
// had them locked.
const apart = 4

// RenewAll implements [token.BatchRenewer]: all in one statement, one round trip
// and one commit. A lease whose row somebody else has locked at that moment is
// renewed after the others, on its own, so that nobody waits for it but itself.
func (i *Issuer) RenewAll(ctx context.Context, batch []token.Renewal) {
	var asked []*token.Renewal
	var resources, holders []string
	var ttls []int64
	for k := range batch {
		r := &batch[k]
		if r.Err = checkAll(r.Token.Resource, r.Token.Holder, r.TTL); r.Err == nil {
			asked = append(asked, r)
			resources = append(resources, r.Token.Resource)
			holders = append(holders, r.Token.Holder)
			ttls = append(ttls, r.TTL.Microseconds())
		}
	}
	if len(asked) == 0 {
		return
	}
	var verdicts []int64
	sent := time.Now()
	err := i.single(ctx, renewAllSQL, []any{resources, holders, ttls}, &verdicts)
	if err == nil && len(verdicts) != len(asked)+1 {
		err = fmt.Errorf("the server answers %d of %d", len(verdicts)-1, len(asked))
	}
	if err != nil {
		for _, r := range asked {
			r.Err = fmt.Errorf("pgtoken: renew %s: %w", r.Token, err)
		}
		return
	}
	i.renewed(ctx, asked, verdicts[1:], func(r *token.Renewal) time.Time {
		return until(sent, microseconds(verdicts[0]), r.TTL)
	})
}

func (i *Issuer) renewed(ctx context.Context, asked []*token.Renewal, verdicts []int64, ends func(*token.Renewal) time.Time) {
	var group sync.WaitGroup
	slots := make(chan struct{}, apart)
	for k, r := range asked {
		switch verdicts[k] {
		case 1:
			r.Until = ends(r)
		case 0:
			r.Err = fmt.Errorf("pgtoken: renew %s: %w", r.Token, token.ErrLost)
		default:
			group.Go(func() {
				slots <- struct{}{}
				r.Until, r.Err = i.Renew(ctx, r.Token, r.TTL)
				<-slots
			})
		}
	}
	group.Wait()
}
