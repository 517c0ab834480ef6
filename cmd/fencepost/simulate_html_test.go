package main

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSimulateDrawsAPage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "page.html")
	require.NoError(t, os.WriteFile(file, []byte("the last one"), 0o600))
	done := execute(t, "simulate", "--rounds", "1", "--html", file)
	require.Zero(t, done.status, done.err)
	require.True(t, strings.HasSuffix(done.out, "\nA picture of it: "+file+" (open it in a browser)\n"), done.out)
	requireOnly(t, folder, "page.html")
	requireEmpty(t, done.temp)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	page := html.UnescapeString(string(text))
	for _, said := range []string{
		"<body><main>\n<h1>Verdict: the fence holds.</h1>\n<p>Acknowledged updates lost with the lock alone: 1. ", "Run it again",
		"Unguarded: ", "Guarded: ", "Recheck: ", "Check-then-write: ",
		"writes 120", "writes 150", "reads 100", "balance 150: B+20 is gone", "stopped",
		"checks the lease: yes", "compares with the mark: yes", "refused, below the mark",
		"replaces B's, which was acknowledged. Lost: B+20.",
		"Rounds of each way: 1.", "fencepost simulate --html FILE",
	} {
		require.Contains(t, page, said)
	}
	_, figures, _ := strings.Cut(page, `<table class="figures">`)
	figures, _, _ = strings.Cut(figures, "</table>")
	figures = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(figures, " ")
	_, table, _ := strings.Cut(done.out, "All four ways, rounds of each: 1\n")
	table, _, _ = strings.Cut(table, "Verdict: ")
	require.NotEmpty(t, table)
	require.Equal(t, strings.Fields(table), strings.Fields(figures), "the table of the text")
	require.NotContains(t, page, "unknown", "an outcome that no writer had")
	require.Equal(t, 4, strings.Count(page, "<table>"))
	require.Equal(t, 3, strings.Count(page, "Broken: order.</b>"), "a red row in each that lost an update")
}

func TestSimulateAsJSONSaysNothingOfThePage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.html")
	done := execute(t, "simulate", "--rounds", "2", "--json", "--html", file)
	require.Zero(t, done.status, done.err)
	requireReport(t, done.out, "redis (embedded)", "sqlite (embedded)")
	require.FileExists(t, file)
}

func TestAPageThatCannotBeWrittenIsRefusedBeforeTheWork(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"no such folder": filepath.Join("none", "page.html"),
		"a folder":       "",
		"a long name":    strings.Repeat("x", 300),
		"below a file":   filepath.Join("file", "page.html"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(folder, "file"), nil, 0o600))
			page := filepath.Join(folder, path)
			done := execute(t, "simulate", "--rounds", "10000", "--html", page)
			requireFailed(t, done, 2, "html: "+page+" was not written: ")
			requireOnly(t, folder, "file")
		})
	}
}

// An empty flag is that of an unset shell variable. An empty environment variable is unset.
func TestAnEmptyNameOfAPageIsRefused(t *testing.T) {
	t.Parallel()
	requireFailed(t, execute(t, "simulate", "--rounds", "1", "--html", ""), 2, "html: the name of the file is empty")
	cmd, _ := command(t, "simulate", "--rounds", "1")
	cmd.Env = append(cmd.Env, "FENCEPOST_SIMULATE_HTML=")
	require.NoError(t, cmd.Run())
}

func TestAPageGoesToWhatIsNoFile(t *testing.T) {
	t.Parallel()
	done := execute(t, "simulate", "--rounds", "1", "--html", "/dev/stdout")
	require.Zero(t, done.status, done.err)
	require.Contains(t, done.out, "</html>")
}

func requireOnly(t *testing.T, folder string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	require.Equal(t, names, found)
}
