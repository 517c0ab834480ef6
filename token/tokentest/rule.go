package tokentest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/fencepost/fencepost/token"
)

// TestIssuer checks that an issuer keeps every rule of [token.Issuer], with a
// parallel subtest for each, and where it is a [token.Waiter], a
// [token.BatchRenewer] or a [token.Raiser], every rule of those. newIssuer is
// called once per rule, and once to see what the issuer is; each time it
// returns a view of the issuer under test, and the views may share a server.
// It may use t to clean up.
func TestIssuer(t *testing.T, newIssuer func(t *testing.T) token.Issuer) {
	t.Helper()
	for _, r := range rules(newIssuer(t)) {
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

// rules are those that iss has to keep, for being what it is.
func rules(iss token.Issuer) []rule {
	all := slices.Concat(numberRules, holderRules, renewalRules, releaseRules,
		expiryRules, resourceRules, cancelRules, crowdRules)
	_, waits := iss.(token.Waiter)
	if waits {
		all = slices.Concat(all, lineRules, bargeRules, leaveRules, handOverRules, queueRules)
	}
	if _, batches := iss.(token.BatchRenewer); batches {
		all = slices.Concat(all, batchRules, batchLostRules)
	}
	_, raises := iss.(token.Raiser)
	if raises {
		all = slices.Concat(all, raiseRules, raiseRaceRules)
	}
	if raises && waits {
		all = append(all, raisedHandOver)
	}
	return all
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
