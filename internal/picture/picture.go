package picture

import (
	"io"

	"github.com/fencepost/fencepost/simulations/history"
)

// Page is what is drawn, from the top down.
type Page struct {
	Title  string // one sentence
	Lead   string // a paragraph, may be empty
	Again  string // the command that has it again, may be empty
	Scenes []Scene
}

// Scene is one history: lanes from left to right in time.
type Scene struct {
	Title string
	Lead  string // may be empty
	// History is drawn as it is, judged or not. Of several resources that of
	// the first violation is drawn, or else the one with the most ops.
	History history.History
	// Violations may be empty. The picture is cut out around the first, and
	// marks the instant at which the last of its ops ended.
	Violations []history.Violation
	// Small has half the width and the most important labels only.
	Small bool
}

// limits are how many ops a scene shows at most: the first that makes the page
// small enough is taken.
var limits = []int{110, 80, 60, 40, 24, 12}

// largest is what a page may come to, in bytes.
const largest = 100_000

// Write writes the page, as HTML.
func Write(w io.Writer, p Page) error {
	stories := make([]*story, len(p.Scenes))
	for i, s := range p.Scenes {
		stories[i] = newStory(s)
	}
	var text string
	for _, limit := range limits {
		if text = page(p, stories, limit); len(text) < largest {
			break
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// WriteSVG writes one scene alone, for a README: on a white ground, so that it
// can be read wherever it is shown.
func WriteSVG(w io.Writer, s Scene) error {
	_, err := io.WriteString(w, alone(newFigure(newStory(s).cut(limits[0]), s)))
	return err
}
