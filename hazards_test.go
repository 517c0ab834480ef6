package fencepost_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A hazard may be listed under "Closed" only if a test names it in a comment.
func TestEveryClosedHazardHasATest(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/hazards.md")
	require.NoError(t, err)
	closed, _, found := strings.Cut(string(page), "## Known, not closed yet")
	require.True(t, found)
	forced := hazardsInTests(t)
	rows := regexp.MustCompile(`(?m)^\| ([RPGMWL]\d+) \|`).FindAllStringSubmatch(closed, -1)
	require.NotEmpty(t, rows)
	listed := map[string]bool{}
	for _, row := range rows {
		require.Contains(t, forced, row[1], "no test names hazard %s", row[1])
		require.False(t, listed[row[1]], "two hazards are %s", row[1])
		listed[row[1]] = true
	}
}

func hazardsInTests(t *testing.T) map[string]bool {
	t.Helper()
	comment, id := regexp.MustCompile(`(?m)// hazards? .*$`), regexp.MustCompile(`\b[RPGMWL]\d+\b`)
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !isTest(path) {
			return err
		}
		text, err := os.ReadFile(path)
		for _, line := range comment.FindAllString(string(text), -1) {
			for _, hazard := range id.FindAllString(line, -1) {
				found[hazard] = true
			}
		}
		return err
	})
	require.NoError(t, err)
	return found
}

func isTest(path string) bool {
	suites := strings.Contains(path, "tokentest/") || strings.Contains(path, "guardtest/")
	return strings.HasSuffix(path, "_test.go") || suites && strings.HasSuffix(path, ".go")
}
