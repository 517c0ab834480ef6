package adopt_test

import (
	"testing"

	"github.com/fencepost/fencepost/internal/test/doccheck"
)

func TestDocsQuoteThisCode(t *testing.T) {
	t.Parallel()
	doccheck.Check(t, "../../docs/adopt.md", ".", "../../contrib/zktoken")
}
