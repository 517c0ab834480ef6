package guardtest

import (
	"context"
	"slices"

	"github.com/fencepost/fencepost/guard"
)

// Rules returns the rules that the suite checks.
func Rules() []string {
	var rules []string
	for _, c := range checks {
		rules = append(rules, c.rule)
	}
	return rules
}

// Broken returns the error of each check that the store does not pass, by rule. Each
// check gets a new store.
func Broken(ctx context.Context, newStore func() guard.Store) map[string]error {
	broken := map[string]error{}
	for c := range slices.Values(checks) {
		if err := c.run(ctx, newStore()); err != nil {
			broken[c.rule] = err
		}
	}
	return broken
}
