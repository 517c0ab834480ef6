package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lab/dst"
)

const theControl = "<h2>The same seed with refusals ignored</h2>"

// explorePage returns the page of --html. It must be small, complete, and show both runs.
func explorePage(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Less(t, len(text), 100_000)
	page := string(text)
	require.Contains(t, page, "<h2>Guarded</h2>")
	require.Contains(t, page, theControl)
	for _, foreign := range []string{"://", "src=", "href=", "<script", "<link", "@import", "url("} {
		require.NotContains(t, page, foreign)
	}
	return page
}

func TestExploreDrawsTheFirstRunThatTheControlBreaks(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "page.html")
	done := execute(t, "--schedules", "30", "--html", file, "--json")
	require.Zero(t, done.status, done.err)
	seed := explorations(t, done.out)["control_broken_seed"]
	requireOnly(t, folder, "page.html")
	page := explorePage(t, file)
	require.Contains(t, page, fmt.Sprintf("<title>Schedule %v</title>", seed))
	require.Contains(t, page, fmt.Sprintf("go run -C lab ./explore --seed %v --schedules 1 --html FILE", seed))
	control, guarded, _ := strings.Cut(page, "<h2>Guarded</h2>")
	require.Contains(t, control, theControl, "the violation comes first")
	require.Contains(t, control, ">Broken: ")
	require.NotContains(t, guarded, ">Broken: ")
}

func TestExploreDrawsASingleScheduleWhateverItsOutcome(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.html")
	done := execute(t, "--seed", "9", "--schedules", "1", "--faults", "none", "--html", file)
	require.Zero(t, done.status, done.err)
	require.True(t, strings.HasSuffix(done.out, "\nA picture of it: "+file+" (open it in a browser)\n"), done.out)
	page := explorePage(t, file)
	require.Contains(t, page, "<title>Schedule 9</title>")
	require.Contains(t, page, "go run -C lab ./explore --seed 9 --schedules 1 --faults none --html FILE")
}

func TestExploreDrawsTheFirstViolationOfTheGuard(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.html")
	done := mistaken(t, "strict less-than", dst.Plan{Seed: 1, Schedules: 20, Faults: dst.All}, exploreCmd{HTML: file})
	require.Equal(t, 1, done.status, done.err)
	guarded, _, _ := strings.Cut(explorePage(t, file), theControl)
	require.Contains(t, guarded, ">Broken: ")
}

func TestWithoutAViolationNoPictureIsDrawn(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	done := execute(t, "--schedules", "2", "--seed", harmless(t), "--faults", "none", "--html", filepath.Join(folder, "page.html"))
	require.Equal(t, 2, done.status)
	require.Contains(t, done.out, "Verdict: ", "the verdict is printed nevertheless")
	require.Contains(t, done.err, "html: nothing to draw")
	requireOnly(t, folder)
}

func TestExploreNamesThePageItCannotWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "none", "page.html")
	done := execute(t, "--schedules", "30", "--html", file)
	require.Equal(t, 2, done.status)
	require.Contains(t, done.out, "Verdict: ", "the verdict is printed nevertheless")
	require.Contains(t, done.err, "explore: html: "+file+" was not written: ")
	requireOnly(t, folder)
}
