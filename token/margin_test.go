package token_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

func TestAMarginThatLeavesNoTimeToRenewIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		ttl, margin time.Duration
		text        string
	}{
		"the first renewal comes too late": {300 * time.Millisecond, 210 * time.Millisecond, "token: Locker's margin 210ms is more than half of its ttl 300ms"},
		"just above half":                  {ttl, ttl/2 + 1, "token: Locker's margin 500.000001ms is more than half of its ttl 1s"},
		"the default of a tiny ttl":        {19 * time.Millisecond, 0, "token: Locker's margin 10ms is more than half of its ttl 19ms"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				locker := token.Locker{Issuer: &w, TTL: test.ttl, Margin: test.margin}
				for _, err := range everyWay(t, &locker, account) {
					require.EqualError(t, err, test.text)
				}
				require.Zero(t, w.acquire.calls.Load())
			})
		})
	}
}

func TestTheLargestMarginRenews(t *testing.T) {
	for name, locker := range map[string]token.Locker{
		"half of the ttl":         {TTL: ttl, Margin: ttl / 2},
		"the default of 10 ms":    {TTL: 20 * time.Millisecond},
		"the default of one more": {TTL: 21 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := wire{there: locker.TTL / 40, back: locker.TTL / 40}
				l := token.Locker{Issuer: &w, TTL: locker.TTL, Margin: locker.Margin}
				require.NoError(t, l.Hold(t.Context(), account, func(ctx context.Context) error {
					time.Sleep(100 * locker.TTL)
					return ctx.Err()
				}))
				require.Greater(t, w.renew.calls.Load(), int64(100))
			})
		})
	}
}
