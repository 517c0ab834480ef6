package guardtest

import (
	"context"
	"testing"
	"time"

	"github.com/fencepost/fencepost/guard"
)

// bound ends a check of a store that hangs.
const bound = 2 * time.Minute

// check returns nil if a new store follows the rule, or what it saw instead.
type check struct {
	rule string
	run  func(ctx context.Context, s guard.Store) error
}

var checks = []check{
	{"a resource without a mark admits every complete token", first},
	{"a greater number is admitted", greater},
	{"a lesser number is refused", lesser},
	{"the mark's own holder is admitted again", again},
	{"an equal number of another holder is refused", collision},
	{"numbers are compared as numbers", numeric},
	{"resources have marks of their own", apart},
	{"marks are not forgotten", remembered},
	{"a refusal changes nothing", unchanged},
	{"a refusal is a StaleError with the token and the mark", told},
	{"an incomplete token is refused with its own error", incomplete},
	{"an ended context is no refusal and lowers no mark", cancelled},
	{"resources are compared byte by byte", resourceBytes},
	{"holders are compared byte by byte", holderBytes},
	{"names are kept whole", whole},
	{"compare and raise are one step", oneStep},
	{"contention refuses nobody but the stale", noSpuriousRefusal},
}

// TestStore runs one subtest for each rule of [guard.Store], in parallel, each
// with a store from newStore. newStore may return the same store each time. A
// store that answers [guard.ErrRetryable] is asked again.
func TestStore(t *testing.T, newStore func(t *testing.T) guard.Store) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			if err := c.run(ctx, newStore(t)); err != nil {
				t.Errorf("guardtest: the store breaks the rule %q: %v", c.rule, err)
			}
		})
	}
}
