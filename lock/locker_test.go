package lock_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestSettingsAreCheckedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	var w wire
	for name, bad := range map[string]struct {
		locker   lock.Locker
		resource string
		text     string
	}{
		"no issuer":               {lock.Locker{}, account, "lock: Locker has no Issuer"},
		"a negative ttl":          {lock.Locker{Issuer: &w, TTL: -1, DangerouslyWithoutClaim: true}, account, "lock: Locker has a negative duration"},
		"a negative wait":         {lock.Locker{Issuer: &w, WaitTimeout: -1, DangerouslyWithoutClaim: true}, account, "lock: Locker has a negative duration"},
		"a negative bound":        {lock.Locker{Issuer: &w, HoldAtMost: -1, DangerouslyWithoutClaim: true}, account, "lock: Locker has a negative duration"},
		"a negative margin":       {lock.Locker{Issuer: &w, SafetyMargin: -1, DangerouslyWithoutClaim: true}, account, "lock: Locker has a negative duration"},
		"a margin of the ttl":     {lock.Locker{Issuer: &w, TTL: ttl, SafetyMargin: ttl, DangerouslyWithoutClaim: true}, account, "lock: Locker's SafetyMargin 1s is more than half of its TTL 1s"},
		"a ttl of only a margin":  {lock.Locker{Issuer: &w, TTL: 10 * time.Millisecond, DangerouslyWithoutClaim: true}, account, "lock: Locker's SafetyMargin 10ms is more than half of its TTL 10ms"},
		"a resource without name": {lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}, "", `token: resource "" must not be empty`},
		"a resource of two lines": {lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}, "a\nb", `token: resource "a\nb" must not contain control characters`},
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

// everyWay holds in all ways, with work that must not run.
func everyWay(t *testing.T, l *lock.Locker, resource string) []error {
	t.Helper()
	unreached := func(context.Context) error {
		t.Error("the work ran")
		return nil
	}
	_, acquired := l.Acquire(t.Context(), resource)
	_, tried := noWait(l).Acquire(t.Context(), resource)
	return []error{
		acquired, tried, l.Hold(t.Context(), resource, unreached), noWait(l).Hold(t.Context(), resource, unreached),
		l.HoldAll(t.Context(), []string{resource}, unreached),
	}
}

func TestTheZeroSettingsAreSensible(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.renew.set(fails)
		start := time.Now()
		held, err := (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		require.Contains(t, held.Token().Holder, "/lock.test:", "the program's name")
		<-held.Context().Done()
		require.Equal(t, 9*time.Second, time.Since(start), "a ttl of 10 s less a tenth")
	})
}

// A Name must not work on one machine and fail on another.
func TestALongNameWorksOnEveryHost(t *testing.T) {
	t.Parallel()
	for _, host := range []string{strings.Repeat("h", 64), strings.Repeat("é", 32)} {
		for size, whole := range map[int]bool{1: true, 90: true, 150: false, 160: false} {
			holder := lock.NewHolder(host, strings.Repeat("n", size))
			_, err := token.New(account, 1, holder)
			require.NoError(t, err, "%s: a name of %d bytes", host, size)
			require.Equal(t, whole, strings.HasPrefix(holder, host+":"), holder)
		}
	}
}

func TestEveryAcquisitionHasAHolderOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := lock.Locker{Issuer: new(memtoken.Issuer), Name: "billing", DangerouslyWithoutClaim: true}
		host, err := os.Hostname()
		require.NoError(t, err)
		seen := map[string]bool{}
		for range 100 {
			require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
				holder := fromContext(t, ctx, account).Holder
				require.False(t, seen[holder])
				require.Regexp(t, `^[^:]+:\d+/billing:\d+:[0-9a-f]{16}$`, holder)
				require.True(t, strings.HasPrefix(holder, fmt.Sprintf("%s:%d/", host, os.Getpid())), "%s begins with the host and the process", holder)
				seen[holder] = true
				return nil
			}))
		}
	})
}

func TestANameThatNoHolderCanHaveIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		locker := lock.Locker{Issuer: new(memtoken.Issuer), Name: strings.Repeat("n", token.MaxNameBytes), DangerouslyWithoutClaim: true}
		for _, err := range everyWay(t, &locker, account) {
			require.ErrorIs(t, err, token.ErrInvalid)
		}
	})
}
