package adopt_test

import (
	"testing"

	"github.com/fencepost/fencepost/internal/quote"
)

func TestDocsQuoteThisCode(t *testing.T) {
	t.Parallel()
	quote.Check(t, "../../docs/adopt.md", ".")
}
