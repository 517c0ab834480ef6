package token_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestTermsAreCheckedBeforeAnythingIsAsked(t *testing.T) {
	t.Parallel()
	var w wire
	for name, bad := range map[string]struct {
		locker   token.Locker
		resource string
		text     string
	}{
		"no issuer":               {token.Locker{}, account, "token: Locker has no Issuer"},
		"a negative ttl":          {token.Locker{Issuer: &w, TTL: -1}, account, "token: Locker has a negative duration"},
		"a negative wait":         {token.Locker{Issuer: &w, Wait: -1}, account, "token: Locker has a negative duration"},
		"a negative bound":        {token.Locker{Issuer: &w, AtMost: -1}, account, "token: Locker has a negative duration"},
		"a negative margin":       {token.Locker{Issuer: &w, Margin: -1}, account, "token: Locker has a negative duration"},
		"a margin of the ttl":     {token.Locker{Issuer: &w, TTL: ttl, Margin: ttl}, account, "token: Locker's margin 1s is more than half of its ttl 1s"},
		"a ttl of only a margin":  {token.Locker{Issuer: &w, TTL: 10 * time.Millisecond}, account, "token: Locker's margin 10ms is more than half of its ttl 10ms"},
		"a resource without name": {token.Locker{Issuer: &w}, "", `token: resource "" must not be empty`},
		"a resource of two lines": {token.Locker{Issuer: &w}, "a\nb", `token: resource "a\nb" must not contain control characters`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, err := range everyWay(t, &bad.locker, bad.resource) {
				require.EqualError(t, err, bad.text)
			}
			require.Zero(t, w.acquire.calls.Load())
		})
	}
}

// everyWay tries to hold in all ways, with work that must not run.
func everyWay(t *testing.T, l *token.Locker, resource string) []error {
	t.Helper()
	unreached := func(context.Context) error {
		t.Error("the work ran")
		return nil
	}
	_, acquired := l.Acquire(t.Context(), resource)
	_, tried := l.TryAcquire(t.Context(), resource)
	return []error{
		acquired, tried, l.Hold(t.Context(), resource, unreached), l.TryHold(t.Context(), resource, unreached),
		l.HoldAll(t.Context(), []string{resource}, unreached),
	}
}

func TestTheZeroSettingsAreSensible(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.renew.set(fails)
		start := time.Now()
		held, err := (&token.Locker{Issuer: &w}).Acquire(t.Context(), account)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(held.Token().Holder, "token.test:"), "the program's name leads in %s", held.Token().Holder)
		<-held.Context().Done()
		require.Equal(t, 9*time.Second, time.Since(start), "a ttl of 10 s less a tenth")
	})
}

func TestEveryAcquisitionHasAHolderOfItsOwn(t *testing.T) {
	t.Parallel()
	locker := token.Locker{Issuer: new(memtoken.Issuer), Name: "billing"}
	seen := map[string]bool{}
	for range 100 {
		require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			holder := fromContext(t, ctx, account).Holder
			require.False(t, seen[holder])
			require.Regexp(t, `^billing:\d+:\d+:[0-9a-f]{16}$`, holder)
			seen[holder] = true
			return nil
		}))
	}
}

func TestANameThatNoHolderCanHaveIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := token.Locker{Issuer: new(memtoken.Issuer), Name: strings.Repeat("n", token.MaxName)}
		for _, err := range everyWay(t, &locker, account) {
			require.ErrorIs(t, err, token.ErrInvalid)
		}
	})
}
