package tokentest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/tokentest"
)

// deposit is code under test: it takes its token from the context.
func deposit(ctx context.Context, store guard.Store, resource string) error {
	tok, err := token.FromContext(ctx, resource)
	if err != nil {
		return err
	}
	return store.Admit(ctx, tok)
}

// A unit test creates a holder and its successor without a lock service.
func ExampleContext() {
	_ = func(t *testing.T) { // func TestDepositRefusesAZombie(t *testing.T)
		zombie := tokentest.Context(t, "account/42")
		successor := tokentest.Context(t, "account/42")
		var marks guard.Memory
		if err := deposit(successor, &marks, "account/42"); err != nil {
			t.Fatal(err)
		}
		if err := deposit(zombie, &marks, "account/42"); !errors.Is(err, guard.ErrStale) {
			t.Fatalf("the zombie's deposit returned %v, want ErrStale", err)
		}
	}
}

// The test of an issuer calls TestIssuer.
func ExampleTestIssuer() {
	_ = func(t *testing.T) { // func TestIssuer(t *testing.T)
		tokentest.TestIssuer(t, func(*testing.T) token.Issuer { return new(memtoken.Issuer) })
	}
}
