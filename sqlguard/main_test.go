package sqlguard_test

import (
	"testing"

	"github.com/fencepost/fencepost/internal/test/leaktest"
)

// suite runs all tests of the package and the cleanups after them.
type suite struct{ *testing.M }

func (s suite) Run() int {
	code := s.M.Run()
	if !clearShelf() && code == 0 {
		code = 1
	}
	return code
}

func TestMain(m *testing.M) { leaktest.Main(suite{m}) }
