package token_test

import (
	"testing"

	"github.com/fencepost/fencepost/internal/test/leaktest"
)

const account = "account/42"

func TestMain(m *testing.M) { leaktest.Main(m) }
