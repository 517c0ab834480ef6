package guardtest_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/token"
)

func TestTheReferencePasses(t *testing.T) {
	t.Parallel()
	guardtest.TestStore(t, func(*testing.T) guard.Store { return &guard.Memory{} })
}

func TestOneStoreServesAllChecks(t *testing.T) {
	t.Parallel()
	shared := &guard.Memory{}
	guardtest.TestStore(t, func(*testing.T) guard.Store { return shared })
}

func TestTheUnbrokenMutantPasses(t *testing.T) {
	t.Parallel()
	require.Empty(t, guardtest.Broken(t.Context(), func() guard.Store { return newMutant() }))
}

func TestEachMutantIsCaughtByTheRulesItBreaks(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			var broken map[string]error
			// In fake time, a store that pauses continues when all other writers wait. So
			// each race of the suite has the interleaving that the mutant needs.
			synctest.Test(t, func(t *testing.T) {
				broken = guardtest.Broken(t.Context(), func() guard.Store {
					s := newMutant()
					m.apply(s)
					return s
				})
			})
			if !slices.Contains(m.breaks, oneStep) && !slices.Contains(m.breaks, spurious) {
				delete(broken, oneStep)
				delete(broken, spurious)
			}
			require.ElementsMatch(t, m.breaks, slices.Collect(maps.Keys(broken)), "%v", broken)
		})
	}
}

func TestEveryRuleIsBrokenByAMutant(t *testing.T) {
	t.Parallel()
	caught := map[string]bool{}
	for _, m := range mutants {
		for _, rule := range m.breaks {
			caught[rule] = true
		}
	}
	for _, rule := range guardtest.Rules() {
		require.True(t, caught[rule], "no mutant breaks the rule %q", rule)
	}
}

// busy returns ErrRetryable for every other call, as a database may.
type busy struct {
	guard.Memory
	calls chan bool
}

func (b *busy) Admit(ctx context.Context, tok token.Token) error {
	if now := <-b.calls; now {
		b.calls <- false
		return guard.ErrRetryable
	}
	defer func() { b.calls <- true }()
	return b.Memory.Admit(ctx, tok)
}

func TestABusyStoreIsAskedAgain(t *testing.T) {
	t.Parallel()
	guardtest.TestStore(t, func(*testing.T) guard.Store {
		b := &busy{calls: make(chan bool, 1)}
		b.calls <- true
		return b
	})
}
