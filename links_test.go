package fencepost_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each link of a page to a file of this repository names a file that exists, and each
// anchor a heading of that page.
func TestLinksToFilesAreNotBroken(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	link := regexp.MustCompile(`(?m)\]\(([^)]+)\)|^\[[^\]]+\]: (\S+)$`)
	for _, page := range append(pages, docs...) {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			target := found[1] + found[2]
			if strings.Contains(target, "://") {
				continue
			}
			name, anchor, anchored := strings.Cut(target, "#")
			file := page
			if name != "" {
				file = filepath.Join(filepath.Dir(page), name)
			}
			_, err := os.Stat(file)
			require.NoError(t, err, "%s has a broken link", page)
			if anchored && strings.HasSuffix(file, ".md") {
				require.Contains(t, anchors(read(t, file)), anchor, "%s has a link to %s", page, target)
			}
		}
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them: lower case,
// without punctuation, with hyphens for spaces.
func anchors(page string) (all []string) {
	dropped := regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		all = append(all, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-"))
	}
	return all
}
