package proof_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Flags for compiling pan. Exhaustive searches run long, so they are optimized. A search
// for a counterexample is short, and breadth-first, so that it finds a shortest one.
var (
	exhaustive = []string{"-O1", "-DSAFETY", "-DNOFAIR"}
	shortest   = []string{"-O0", "-DSAFETY", "-DNOFAIR", "-DBFS"}
	cycles     = []string{"-O1", "-DNFAIR=3"}
)

// atOnce limits how many searches run at the same time.
var atOnce = make(chan struct{}, 2)

// result is the result of a search.
type result struct {
	broken string // the assertion, or "acceptance cycle"; empty if there is none
	depth  string // the length of the trail, or of the longest path
	states string
	text   string        // the whole output
	story  func() string // returns the model's output along the trail
}

// search makes SPIN write a program that searches the model with these settings, compiles
// it and runs it.
func search(t *testing.T, settings, compile []string, run ...string) result {
	t.Helper()
	model, err := filepath.Abs("fence.pml")
	require.NoError(t, err)
	spin, cc := tools(t)
	atOnce <- struct{}{}
	defer func() { <-atOnce }()
	dir := t.TempDir()
	generate := append([]string{"-P" + cc + " -E -x c", "-a"}, settings...)
	said := command(t, dir, spin, append(generate, model)...)
	require.FileExists(t, filepath.Join(dir, "pan.c"), "spin: %s", said)
	said = command(t, dir, cc, append(compile, "-DMEMLIM=1600", "-w", "-o", "pan", "pan.c")...)
	require.FileExists(t, filepath.Join(dir, "pan"), "%s: %s", cc, said)
	r := parse(command(t, dir, filepath.Join(dir, "pan"), append([]string{"-m20000"}, run...)...))
	r.story = func() string {
		replay := append([]string{"-P" + cc + " -E -x c", "-t", "-k", filepath.Join(dir, "fence.pml.trail")}, settings...)
		return story(command(t, dir, spin, append(replay, model)...))
	}
	return r
}

// tools returns the paths of SPIN and a C compiler.
func tools(t *testing.T) (spin, cc string) {
	t.Helper()
	spin, err := exec.LookPath("spin")
	require.NoError(t, err, "proof: the tests lack spin: run 'make setup'")
	for _, name := range []string{cmp.Or(os.Getenv("CC"), "cc"), "gcc", "clang"} {
		if cc, err := exec.LookPath(name); err == nil {
			return spin, cc
		}
	}
	require.Fail(t, "proof: the tests lack a C compiler: run 'make setup'")
	return "", ""
}

// command returns the output of the program, also if it fails: pan fails if it finds an
// error.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		require.NoError(t, err, "%s %v", name, args)
	}
	return string(out)
}

var (
	violated = regexp.MustCompile(`pan:1: (?:assertion violated\s+(.+?)|(acceptance cycle|.+?)) \(at depth (\d+)\)`)
	deepest  = regexp.MustCompile(`depth reached (\d+), errors: \d+`)
	stored   = regexp.MustCompile(`(?m)^\s*([\d.e+]+) states, stored`)
)

// logTrail logs the steps that led to the expected result of a search.
func logTrail(t *testing.T, r result, what string) {
	t.Helper()
	if testing.Verbose() {
		t.Logf("%s after %s steps\n%s", what, r.depth, r.story())
	}
}

func parse(text string) result {
	r := result{text: text}
	if m := violated.FindStringSubmatch(text); m != nil {
		r.broken, r.depth = strings.Trim(m[1]+m[2], "!()"), m[3]
	} else if m := deepest.FindStringSubmatch(text); m != nil {
		r.depth = m[1]
	}
	if m := stored.FindStringSubmatch(text); m != nil {
		r.states = m[1]
	}
	return r
}

// story returns the lines that the model has printed.
func story(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if printed := strings.TrimSpace(line); regexp.MustCompile(`^[a-z]+: .*#|^expired: |^<<<`).MatchString(printed) {
			lines = append(lines, "    "+printed)
		}
	}
	return strings.Join(lines, "\n")
}
