package consultoken_test

import (
	"testing"

	"github.com/fencepost/fencepost/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
