package fencepost_test

import (
	"testing"

	"github.com/fencepost/fencepost/internal/quote"
)

func TestReadmeQuotesCodeThatCompiles(t *testing.T) {
	t.Parallel()
	quote.Check(t, "README.md", "examples/withdraw", "httpguard")
}
