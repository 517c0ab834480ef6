package fencepost_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinksToFilesAreNotBroken(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	for _, page := range append(pages, docs...) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(found[1], "://") {
				_, err := os.Stat(filepath.Join(filepath.Dir(page), found[1]))
				require.NoError(t, err, "%s has a broken link", page)
			}
		}
	}
}
