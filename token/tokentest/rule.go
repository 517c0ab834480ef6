package tokentest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/fencepost/fencepost/token"
)

// TestIssuer checks that an issuer keeps every rule of [token.Issuer], with a
// parallel subtest for each. newIssuer is called once per rule and returns a
// view of the issuer under test; the views may share a server. It may use t to
// clean up.
func TestIssuer(t *testing.T, newIssuer func(t *testing.T) token.Issuer) {
	t.Helper()
	for _, r := range rules() {
		t.Run(r.says, func(t *testing.T) {
			t.Parallel()
			if err := r.broken(t.Context(), newIssuer(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// rule is a sentence of the contract and the check that can prove it broken.
type rule struct {
	says  string
	check func(p *probe)
}

func rules() []rule {
	return slices.Concat(numberRules, holderRules, renewalRules, releaseRules, expiryRules, resourceRules, cancelRules, crowdRules)
}

// broken returns nil, or the rule and what was seen instead.
func (r rule) broken(ctx context.Context, iss token.Issuer) error {
	p := newProbe(ctx, iss)
	r.check(p)
	if p.err != nil {
		return fmt.Errorf("rule: %s: %w", r.says, p.err)
	}
	return nil
}
