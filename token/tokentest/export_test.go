package tokentest

import (
	"context"
	"slices"

	"github.com/fencepost/fencepost/token"
)

// Broken checks the rule with the given name.
func Broken(ctx context.Context, name string, iss token.Issuer) error {
	all := rules(iss)
	return all[slices.IndexFunc(all, func(r rule) bool { return r.name == name })].broken(ctx, iss)
}

// Rules returns the names of the rules for iss.
func Rules(iss token.Issuer) []string {
	var names []string
	for _, r := range rules(iss) {
		names = append(names, r.name)
	}
	return names
}
