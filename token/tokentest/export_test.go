package tokentest

import (
	"context"
	"slices"

	"github.com/fencepost/fencepost/token"
)

// Broken checks the one rule that says so.
func Broken(ctx context.Context, says string, iss token.Issuer) error {
	all := rules(iss)
	return all[slices.IndexFunc(all, func(r rule) bool { return r.says == says })].broken(ctx, iss)
}

// Rules returns what the rules for iss say.
func Rules(iss token.Issuer) []string {
	var says []string
	for _, r := range rules(iss) {
		says = append(says, r.says)
	}
	return says
}
