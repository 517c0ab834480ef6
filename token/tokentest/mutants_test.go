package tokentest_test

import (
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

// thisCentury is when the bubbles begin that the mutants run in: at their own
// beginning, in the year 2000, microseconds still have fifteen digits.
var thisCentury = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestEveryBrokenIssuerIsCaughtByItsRule(t *testing.T) {
	t.Parallel()
	for flaw, says := range mutants {
		t.Run(string(flaw), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(thisCentury))
				for _, rule := range says {
					err := tokentest.Broken(t.Context(), rule, newModel(flaw))
					require.ErrorContains(t, err, "rule: "+rule+": ")
				}
			})
		})
	}
}

// The clock of a bubble has no monotonic reading.
func TestAWallClockIsCaughtInRealTime(t *testing.T) {
	t.Parallel()
	rule := "Until counts the whole ttl on the monotonic clock"
	require.NoError(t, tokentest.Broken(t.Context(), rule, newModel(none)))
	require.ErrorContains(t, tokentest.Broken(t.Context(), rule, newModel(untilOnWallClock)), "rule: "+rule)
}

func TestEveryRuleCatchesABrokenIssuer(t *testing.T) {
	t.Parallel()
	caught := slices.Concat(slices.Collect(maps.Values(mutants))...)
	for _, rule := range tokentest.Rules() {
		require.Contains(t, caught, rule, "no mutant says that this rule can fail")
	}
}

func TestHonestIssuersBreakNoRule(t *testing.T) {
	t.Parallel()
	for name, newIssuer := range map[string]func() token.Issuer{
		"memtoken":  func() token.Issuer { return new(memtoken.Issuer) },
		"the model": func() token.Issuer { return newModel(none) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for _, rule := range tokentest.Rules() {
					require.NoError(t, tokentest.Broken(t.Context(), rule, newIssuer()))
				}
			})
		})
	}
}
