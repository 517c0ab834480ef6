// Package doccheck checks the code in documentation: every Go block of a page must occur
// literally in a Go file that compiles, there perhaps one tab further to the right.
package doccheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Check fails t for each fenced Go block of page that is in no Go file of dirs, and for a
// page without Go blocks.
func Check(t *testing.T, page string, dirs ...string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	code := sources(t, dirs)
	blocks := strings.Split(string(text), "\n```go\n")[1:]
	require.NotEmpty(t, blocks, "%s quotes no code", page)
	for _, block := range blocks {
		block, _, closed := strings.Cut(block, "```")
		require.True(t, closed, "%s has an open code block", page)
		require.Contains(t, code, block, "%s quotes code that is in none of %v", page, dirs)
	}
}

func sources(t *testing.T, dirs []string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, "no Go files in %s", dir)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			all.Write(text)
			all.WriteString(strings.ReplaceAll(string(text), "\n\t", "\n"))
		}
	}
	return all.String()
}
