package guardtest

import (
	"context"
	"slices"

	"github.com/fencepost/fencepost/guard"
)

// Rules lists what the suite checks.
func Rules() []string {
	var rules []string
	for _, c := range checks {
		rules = append(rules, c.rule)
	}
	return rules
}

// Broken returns what each check says of a store that does not pass it, by
// rule. Each check gets a new store.
func Broken(ctx context.Context, newStore func() guard.Store) map[string]error {
	broken := map[string]error{}
	for c := range slices.Values(checks) {
		if err := c.run(ctx, newStore()); err != nil {
			broken[c.rule] = err
		}
	}
	return broken
}
