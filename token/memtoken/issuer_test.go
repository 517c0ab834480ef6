package memtoken_test

import (
	"context"
	"testing"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestIssuer(t *testing.T) {
	t.Parallel()
	tokentest.TestIssuer(t, func(*testing.T) token.Issuer { return &restarted{new(memtoken.Issuer)} })
}

// restarted is an issuer whose process restarts.
type restarted struct{ *memtoken.Issuer }

// Forget implements [tokentest.Forgetter].
func (r *restarted) Forget(context.Context, string) error {
	r.Issuer = new(memtoken.Issuer)
	return nil
}
