package memtoken_test

import (
	"testing"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestIssuer(t *testing.T) {
	t.Parallel()
	tokentest.TestIssuer(t, func(*testing.T) token.Issuer { return new(memtoken.Issuer) })
}
