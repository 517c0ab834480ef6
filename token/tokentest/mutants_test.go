package tokentest_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

// thisCentury is the start time of the mutants' bubbles. At a bubble's own start, in the
// year 2000, microseconds still have fifteen digits.
var thisCentury = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

var mutants = []map[flaw][]string{issuerMutants, queueMutants, batchMutants, recoverMutants, inspectMutants, lossMutants}

func TestEveryBrokenIssuerIsCaughtByItsRule(t *testing.T) {
	t.Parallel()
	for _, some := range mutants {
		for flaw, rules := range some {
			t.Run(string(flaw), func(t *testing.T) {
				t.Parallel()
				for _, rule := range rules {
					synctest.Test(t, func(t *testing.T) {
						time.Sleep(time.Until(thisCentury))
						err := tokentest.Broken(t.Context(), rule, newModel(flaw))
						require.ErrorContains(t, err, "rule: "+rule+": ", rule)
					})
				}
			})
		}
	}
}

// The clock in a bubble has no monotonic reading.
func TestAWallClockIsCaughtInRealTime(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		"Until counts the whole ttl on the monotonic clock",
		"Until of a batch counts each ttl on the monotonic clock",
		"no other holder is granted the resource before the Until of a hand-off",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, tokentest.Broken(t.Context(), rule, newModel(none)))
			require.ErrorContains(t, tokentest.Broken(t.Context(), rule, newModel(untilOnWallClock)), "rule: "+rule)
		})
	}
}

func TestEveryRuleCatchesABrokenIssuer(t *testing.T) {
	t.Parallel()
	var caught []string
	for _, some := range mutants {
		caught = slices.Concat(caught, slices.Concat(slices.Collect(maps.Values(some))...))
	}
	for _, rule := range tokentest.Rules(newModel(none)) {
		require.Contains(t, caught, rule, "no mutant proves that this rule can fail")
	}
}

func TestARuleOfAPartIsForIssuersThatHaveIt(t *testing.T) {
	t.Parallel()
	all, plain := tokentest.Rules(newModel(none)), tokentest.Rules(struct{ token.Issuer }{newModel(none)})
	require.Subset(t, all, plain)
	for _, rule := range slices.Concat(slices.Collect(maps.Values(issuerMutants))...) {
		require.Contains(t, plain, rule)
	}
	for _, some := range mutants[1:] {
		for _, rule := range slices.Concat(slices.Collect(maps.Values(some))...) {
			require.NotContains(t, plain, rule)
		}
	}
}

// lateIssuer returns from Wait later than a check gives waiters to join the queue.
type lateIssuer struct{ *memtoken.Issuer }

func (i *lateIssuer) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := i.Issuer.Wait(ctx, resource, holder, ttl)
	time.Sleep(50 * time.Millisecond)
	return grant, err
}

func TestHonestIssuersBreakNoRule(t *testing.T) {
	t.Parallel()
	for name, newIssuer := range map[string]func() token.Issuer{
		"memtoken":                          func() token.Issuer { return new(memtoken.Issuer) },
		"the model":                         func() token.Issuer { return newModel(none) },
		"the slow model":                    newSlowModel,
		"memtoken, whose Wait returns late": func() token.Issuer { return &lateIssuer{Issuer: new(memtoken.Issuer)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, rule := range tokentest.Rules(newIssuer()) {
				synctest.Test(t, func(t *testing.T) {
					require.NoError(t, tokentest.Broken(t.Context(), rule, newIssuer()))
				})
			}
		})
	}
}
