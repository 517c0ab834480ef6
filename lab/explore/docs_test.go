package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lab/dst"
)

func explorePageText(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/explore.md")
	require.NoError(t, err)
	return string(page)
}

// The output in the page is the output of the command, except for lines left out at "…".
func TestThePageShowsWhatExplorePrints(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```\n\\$ go run -C lab ./explore ([^\n]*)\n(.*?)```").FindAllStringSubmatch(explorePageText(t), -1)
	require.Len(t, blocks, 3)
	for _, block := range blocks {
		t.Run(block[1], func(t *testing.T) {
			t.Parallel()
			rest := execute(t, strings.Fields(block[1])...).out
			parts := strings.Split(block[2], "…\n")
			require.True(t, strings.HasPrefix(rest, parts[0]), "the page leaves out the start without an ellipsis:\n%s", rest)
			require.True(t, strings.HasSuffix(rest, parts[len(parts)-1]), "the page leaves out the end without an ellipsis:\n%s", rest)
			for _, part := range parts {
				_, after, found := strings.Cut(rest, part)
				require.True(t, found, "the page has\n%s\nand the command prints\n%s", part, rest)
				rest = after
			}
		})
	}
}

func TestThePageExplainsEveryFaultAndFlag(t *testing.T) {
	t.Parallel()
	_, section, found := strings.Cut(explorePageText(t), "\n## The faults\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var explained []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| .{10,} \\|$").FindAllStringSubmatch(section, -1) {
		explained = append(explained, row[1])
	}
	require.Equal(t, dst.FaultNames(), explained)
	help := execute(t, "--help").out
	help = strings.ReplaceAll(help[strings.Index(help, "Flags:"):], "[no-]", "no-")
	flags := regexp.MustCompile(` --([a-z-]+)`).FindAllStringSubmatch(help, -1)
	require.Len(t, flags, 8)
	for _, flag := range flags {
		if flag[1] != "help" {
			require.Contains(t, explorePageText(t), "\n| `--"+flag[1])
		}
	}
}

// requireTable requires that the page lists the mutants and the seeds that found them.
func requireTable(t *testing.T, all mutantResults) {
	t.Helper()
	var rows []string
	place := ""
	for _, d := range all.Mutants {
		if d.Place == place {
			rows[len(rows)-1] += fmt.Sprintf("; %s (%d)", d.Name, d.Seed)
			continue
		}
		rows = append(rows, fmt.Sprintf("| %s | %s (%d)", d.Place, d.Name, d.Seed))
		place = d.Place
	}
	table := "\n|---|---|\n" + strings.Join(rows, " |\n") + " |\n\n"
	require.True(t, strings.Contains(explorePageText(t), table), "docs/explore.md should have%s", table)
}
