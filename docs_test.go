package fencepost_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/quote"
	"github.com/fencepost/fencepost/simulations/history"
)

func TestTestingPageQuotesCodeThatCompiles(t *testing.T) {
	t.Parallel()
	quote.Check(t, "docs/testing.md", "examples/withdraw")
}

func TestOtherPagesQuoteCodeThatCompiles(t *testing.T) {
	t.Parallel()
	quote.Check(t, "docs/migrations.md", "migrations")
	quote.Check(t, "docs/rollout.md", "sqlguard")
}

func TestTestingPageListsTheRules(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/testing.md")
	require.NoError(t, err)
	for _, rule := range history.Rules() {
		require.Contains(t, string(page), fmt.Sprintf("\n| `%s` | %s | %s |\n", rule.ID, rule.At, rule.Words))
	}
}
