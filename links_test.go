package fencepost_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoPageLinksToWhatIsNotThere(t *testing.T) {
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
				require.FileExists(t, index(filepath.Join(filepath.Dir(page), found[1])), "%s links to it", page)
			}
		}
	}
}

// index is a file of a folder that a page links to.
func index(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 {
			return files[0]
		}
	}
	return path
}
