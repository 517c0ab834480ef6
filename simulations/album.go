package simulations

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/internal/picture"
)

// album has a picture of the first interleaving that failed. Others would show
// the same again.
type album struct{ full bool }

// told is err with where its picture is. Whatever goes wrong with the picture,
// the verdict comes first.
func (a *album) told(t *testing.T, err error) string {
	t.Helper()
	text := err.Error()
	var v *Verdict
	if a.full || !errors.As(err, &v) || v.Toothless() {
		return text
	}
	a.full = true
	path, err := draw(t, v)
	if err != nil {
		return fmt.Sprintf("%s\nThere is no picture of it: %s", strings.TrimSpace(text), err)
	}
	return fmt.Sprintf("%s\nA picture of it: %s (open it in a browser)", strings.TrimSpace(text), path)
}

func draw(t *testing.T, v *Verdict) (path string, err error) {
	t.Helper()
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("simulations: the picture: %v", value)
		}
	}()
	file, err := canvas(t)
	if err != nil {
		return "", err
	}
	err = picture.Write(file, v.page(t.Name()))
	return file.Name(), errors.Join(err, file.Close())
}

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// canvas is a file among the test's artifacts, where go test was asked to keep
// them, else one that outlives the test.
func canvas(t *testing.T) (*os.File, error) {
	t.Helper()
	if kept := flag.Lookup("test.artifacts"); kept != nil && kept.Value.String() == "true" {
		return os.Create(filepath.Join(t.ArtifactDir(), "interleaving.html"))
	}
	name := unsafeInNames.ReplaceAllString(t.Name(), "_")
	return os.CreateTemp(os.TempDir(), name[:min(len(name), 120)]+"-*.html")
}

// page explains the verdict of a test.
func (v *Verdict) page(test string) picture.Page {
	var also []string
	for _, broken := range v.Broken[1:] {
		also = append(also, broken.Rule.ID)
	}
	name, _, _ := strings.Cut(test, "/")
	lead := "A holder of the lock stands still, loses it, and goes on. This is what everybody did, with the guard in place."
	if len(also) > 0 {
		lead += " Broken too: " + strings.Join(also, ", ") + "."
	}
	return picture.Page{
		Title: name + " does not survive the pause", Lead: lead,
		Again: "go test -run '" + test + "'",
		Scenes: []picture.Scene{{
			Title: v.Interleaving, History: v.History, Violations: v.Broken,
		}},
	}
}
