package fencepost_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/test/doccheck"
)

func TestTestingPageQuotesCodeThatCompiles(t *testing.T) {
	t.Parallel()
	doccheck.Check(t, "docs/testing.md", "examples/withdraw", "examples/adopt", "sqlguard")
}

func TestOtherPagesQuoteCodeThatCompiles(t *testing.T) {
	t.Parallel()
	doccheck.Check(t, "docs/rollout.md", "sqlguard")
	doccheck.Check(t, "docs/errors.md", "sqlguard")
	doccheck.Check(t, "docs/kubernetes.md", "lab/kubernetes")
}

func TestTestingPageListsTheRules(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/testing.md")
	require.NoError(t, err)
	for _, rule := range history.Rules() {
		require.Contains(t, string(page), fmt.Sprintf("\n| `%s` | %s | %s |\n", rule.ID, rule.At, rule.Words))
	}
}
