package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page has a row for each flag, with its default, and no others.
func TestThePageListsTheFlags(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/proxy.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Every flag\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	done := execute(t, "proxy", "--help")
	require.Zero(t, done.status)
	text := strings.Join(strings.Fields(done.out), " ")
	flags := regexp.MustCompile(` --([a-z-]+)(=|\s)`).FindAllStringSubmatch(text[strings.Index(text, "Flags:"):], -1)
	require.Greater(t, len(flags), 20)
	rows := regexp.MustCompile("(?m)^\\| `--([a-z-]+)").FindAllStringSubmatch(section, -1)
	listed := map[string]bool{}
	for _, row := range rows {
		listed[row[1]] = true
	}
	for _, flag := range flags {
		if !slices.Contains([]string{"help", "no-color", "version"}, flag[1]) {
			require.True(t, listed[flag[1]], "--%s has no row", flag[1])
		}
	}
	for name := range listed {
		require.Contains(t, text, "--"+name, "the command has no such flag")
	}
	for _, value := range regexp.MustCompile(`\(([0-9][0-9a-zA-Z.:]+)\)`).FindAllStringSubmatch(text, -1) {
		require.Contains(t, section, value[1])
	}
}
