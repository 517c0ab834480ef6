package simulations

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/timeline"
)

// Verdict is the error of [Check] for code that breaks a rule.
type Verdict struct {
	// Interleaving is the name with which `go test -run` performs it again. For a vacuous
	// run it is "plan" or "random".
	Interleaving string
	// LikelyCauses are the mistakes that most often cause this verdict, derived from the
	// steps of guards and tracers. There are several if the history does not distinguish
	// them, and none if it indicates none.
	LikelyCauses []string
	// Err is an error of Do that was returned without a disturbance, such as a refusal.
	// It is nil if there was none.
	Err error

	// violations are the broken rules, each with the shortest history that breaks it. It
	// is empty if the run was vacuous.
	violations []history.Violation
	// history is the recorded history of the interleaving. Run draws the history of the
	// first failure.
	history history.History
}

// Vacuous reports whether the run proved nothing: no interleaving corrupted the twin.
func (v *Verdict) Vacuous() bool { return len(v.violations) == 0 }

// Breaks reports whether the rule with the given id was broken.
func (v *Verdict) Breaks(id string) bool {
	return slices.ContainsFunc(v.violations, func(b history.Violation) bool { return b.Rule.ID == id })
}

// Unwrap returns Err.
func (v *Verdict) Unwrap() error { return v.Err }

func (v *Verdict) Error() string { return v.text() + likelyLines(v.LikelyCauses) }

// text returns the error without the likely causes.
func (v *Verdict) text() string {
	if v.Vacuous() {
		return "simulations: vacuous (" + v.Interleaving + "): the unguarded twin was never corrupted, so nothing was proven."
	}
	var text strings.Builder
	fmt.Fprintf(&text, "simulations: %s", v.Interleaving)
	for _, broken := range v.violations {
		fmt.Fprintf(&text, "\n%s", broken)
	}
	if v.Err != nil {
		fmt.Fprintf(&text, "\n%s", v.Err)
	}
	return text.String()
}

// failurePage writes the page of the first interleaving that fails. Later ones would
// mostly show the same.
type failurePage struct{ written bool }

// withPage returns the text of err, followed by the path of its page or the error of
// writing that.
func (p *failurePage) withPage(t *testing.T, err error) string {
	t.Helper()
	text := err.Error()
	var v *Verdict
	if p.written || !errors.As(err, &v) || v.Vacuous() {
		return text
	}
	p.written = true
	path, err := writePage(t, v)
	if err != nil {
		return fmt.Sprintf("%s\nThere is no picture of it: %s", strings.TrimSpace(text), err)
	}
	return fmt.Sprintf("%s\nA picture of it: %s (open it in a browser)", strings.TrimSpace(text), path)
}

func writePage(t *testing.T, v *Verdict) (path string, err error) {
	t.Helper()
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("simulations: the page: %v", value)
		}
	}()
	file, err := createPageFile(t)
	if err != nil {
		return "", err
	}
	err = timeline.Write(file, v.page(t.Name()))
	return file.Name(), errors.Join(err, file.Close())
}

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// createPageFile creates a file among the test's artifacts if go test keeps them,
// otherwise in the directory for temporary files, which outlives the test.
func createPageFile(t *testing.T) (*os.File, error) {
	t.Helper()
	artifacts, ok := any(t).(interface{ ArtifactDir() string }) // since Go 1.26
	if kept := flag.Lookup("test.artifacts"); ok && kept != nil && kept.Value.String() == "true" {
		return os.Create(filepath.Join(artifacts.ArtifactDir(), "interleaving.html"))
	}
	name := unsafeInNames.ReplaceAllString(t.Name(), "_")
	return os.CreateTemp(os.TempDir(), name[:min(len(name), 120)]+"-*.html")
}

// page returns the page of the verdict of a test.
func (v *Verdict) page(test string) timeline.Page {
	name, _, _ := strings.Cut(test, "/")
	return timeline.Page{
		Title:  name + " does not survive the pause",
		Likely: v.LikelyCauses,
		Lead:   "A holder of the lock is paused, loses the lock, and resumes. The picture shows what every writer did, with the guard in place.",
		Charts: []timeline.Chart{{
			Title: v.Interleaving, History: v.history, Violations: v.violations,
		}},
		Command: "go test -run '" + test + "'",
	}
}
