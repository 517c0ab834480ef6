package redisquorum_test

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestIssuerOnThreeNodes(t *testing.T) { t.Parallel(); conform(t, 3) }

func TestIssuerOnFiveNodes(t *testing.T) { t.Parallel(); conform(t, 5) }

func conform(t *testing.T, n int) {
	t.Helper()
	all := servers(t, n)
	all.founded(t, 24*time.Hour)
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		iss, _ := all.issuer(t, 24*time.Hour)
		return iss
	})
}
