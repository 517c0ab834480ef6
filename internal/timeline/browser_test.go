package timeline_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/timeline"
)

// measure makes a browser load each page in frames of several widths, light and dark, and
// writes the results into the document.
//
//go:embed testdata/measure.html
var measure string

// hang is far above the seconds that the browser takes.
const hang = 2 * time.Minute

// measured are the measurements of a page in one frame.
type measured struct {
	Page   int
	Width  int
	Dark   bool
	Inner  int // of the window
	Scroll int // of the document: if it is larger than Inner, the page scrolls sideways
	Lists  int // visible lists, and rows in them
	Rows   int
	Plots  int // visible plots
	Red    []box
	Faint  []faint // texts by contrast, the faintest first
}

// box marks a violation: a row of a list, or the line through a plot.
type box struct {
	Left, Right, Height float64
	Colour              string
}

type faint struct {
	Text     string
	Contrast float64
}

// chromium returns the browser's path. Its name differs between systems.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	require.FailNow(t, "timeline: the tests lack chromium: run 'make setup'")
	return ""
}

// browse measures pages in one start of the browser.
func browse(t *testing.T, pages []timeline.Page) []measured {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Replace(measure, "PAGES", fmt.Sprint(len(pages)), 1))
	})
	for i, p := range pages {
		text := html(t, p)
		require.Less(t, len(text), timeline.Largest)
		mux.HandleFunc(fmt.Sprintf("GET /%d", i), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, chromium(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--user-data-dir="+t.TempDir(), "--dump-dom", server.URL)
	var said strings.Builder
	cmd.Stderr = &said
	dom, err := cmd.Output()
	require.NoError(t, err, said.String())
	_, found, ok := strings.Cut(string(dom), `<script id="found" type="application/json">`)
	require.True(t, ok, "%s\n%s", dom, said.String())
	found, _, _ = strings.Cut(found, "</script>")
	var all []measured
	require.NoError(t, json.Unmarshal([]byte(found), &all), found)
	return all
}

// browsed are pages as tests and commands write them, and one page in which every text is
// as long as possible.
func browsed(t *testing.T) map[string]timeline.Page {
	t.Helper()
	recordedChart := func(name string, small bool) timeline.Chart {
		s := chart(t, recorded(t, "testdata/"+name+".json"))
		s.Lead, s.Small = "In 10 rounds: 10 of 10 stale writes accepted, 0 refused, 10 updates lost. This is the first.", small
		return s
	}
	two := onePage(recordedChart("unguarded", false))
	two.Likely = []string{"write over the pool: the write went over a connection of its own."}
	w := newWorld(5, false)
	w.name = func(i int) string { return fmt.Sprint(i, strings.Repeat("verylongname", 16), i) }
	h := w.turns(12, 400)
	for i := range h.Ops {
		h.Ops[i].Resource = strings.Repeat("resource", 25)
	}
	long := onePage(chart(t, h))
	long.Title = strings.Repeat("TestALongName", 20)
	long.Likely = []string{strings.Repeat("unbroken", 40), "write over the pool: " + strings.Repeat("so it is ", 40)}
	long.Charts[0].Title = "random/" + strings.Repeat("3_holders_A_sleeps_at_7_undone_", 8)
	long.Again = "go test -run '" + strings.Repeat("TestALongName/plan/", 20) + "'"
	return map[string]timeline.Page{
		"two holders":   two,
		"three holders": onePage(unguarded(t, 2)),
		"simulate --html": onePage(
			recordedChart("unguarded", false), recordedChart("guarded", false),
			recordedChart("unguarded", true), recordedChart("unguarded", true)),
		"long": long,
	}
}

func TestStressAPageFitsAPhoneAndADesktop(t *testing.T) {
	t.Parallel()
	var names []string
	var pages []timeline.Page
	for name, p := range browsed(t) {
		names, pages = append(names, name), append(pages, p)
	}
	all := browse(t, pages)
	require.Len(t, all, 6*len(pages), "three widths, light and dark")
	seen := map[string]bool{}
	for _, m := range all {
		name := fmt.Sprintf("%s, %d, dark %t", names[m.Page], m.Width, m.Dark)
		require.False(t, seen[name], name)
		seen[name] = true
		require.Equal(t, m.Width, m.Inner, name)
		require.LessOrEqual(t, m.Scroll, m.Inner, "%s: the page scrolls sideways", name)
		charts, broken := len(pages[m.Page].Charts), 0
		for _, s := range pages[m.Page].Charts {
			if len(s.Violations) > 0 {
				broken++
			}
		}
		if m.Width == 400 {
			require.Equal(t, []int{charts, 0}, []int{m.Lists, m.Plots}, "%s: lists and no plots", name)
			require.Greater(t, m.Rows, 10*charts, name)
		} else {
			require.Equal(t, []int{0, charts}, []int{m.Lists, m.Plots}, "%s: plots and no lists", name)
		}
		require.Len(t, m.Red, broken, "%s: the violation is shown", name)
		for _, red := range m.Red {
			require.GreaterOrEqual(t, red.Left, 0.0, name)
			if m.Width != 1040 { // in wider pages the plot is scrolled inside the page
				require.LessOrEqual(t, red.Right, float64(m.Inner), name)
			}
			require.Greater(t, red.Height, 40.0, name)
			require.Equal(t, map[bool]string{false: "rgb(208, 20, 44)", true: "rgb(255, 100, 112)"}[m.Dark], red.Colour, name)
		}
		require.NotEmpty(t, m.Faint, name)
		require.GreaterOrEqual(t, m.Faint[0].Contrast, 4.5, "%s: %v", name, m.Faint)
	}
}
