// Package timeline draws a recorded history for people: who held the lock, who was paused,
// what was requested of the resource and with which outcome, and the instant at which a rule
// was broken. Time runs downwards: a row for each event, a lane for each writer.
//
//	   ms  A  B  mark  account/42
//	  0.0  ┃✓          A gets the lock with #41
//	  4.4  ┃✓    #41   A claims with #41: accepted
//	  5.6  ┃z    │     A: stopped
//	100.7   z ┃✓ │     B gets the lock with #42
//	105.6   z ┃✓ #42   B claims with #42: accepted
//	109.8   z ┃✓ │     B writes 120 with #42: accepted
//	113.0   ✗ ┃  │     A writes 150 with #41: refused, below the mark
//
// [Write] draws it as a page, and [Chart.Lines] as text, from the same rows. A page is one file
// without scripts, fonts, links or images from another place, smaller than 100 kB. It never
// scrolls sideways in a window of at least 400 pixels. The same [Page] gives the same bytes.
// Names and notes are always shown as text. Of a long history a chart shows the part around the
// first violation, and says how much it left out. A chart is about one resource.
// The order of the rows is exact, their distances are not to scale. The package judges nothing.
package timeline

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fencepost/fencepost/internal/history"
)

// Page is the content of a page, from the top down.
type Page struct {
	Title string // one sentence
	// Likely are the mistakes that probably led to the history, each a sentence. They
	// come first after the title. Empty: none.
	Likely  []string
	Lead    string  // a paragraph for each line; empty: none
	Table   [][]any // figures; the first row has the headings; empty: none
	Charts  []Chart
	Command string // repeats the run; empty: none
}

// Chart is one history.
type Chart struct {
	Title string
	// History is drawn whether it was judged or not. If it has several resources, the
	// chart shows that of the first violation, or else that of the first op.
	History history.History
	// Violations may be empty. The chart shows the ops around the first one. Up to four
	// have a row at the instant at which the last of their ops ended.
	Violations []history.Violation
}

const (
	mostOps    = 64      // of a chart, or fewer if the page would be larger than largest
	mostLanes  = 6       // of a chart: each has a colour, and in a narrow window they leave room for words
	mostBroken = 4       // violations of a chart that have rows
	largest    = 100_000 // bytes
)

// Write writes the page as HTML.
func Write(w io.Writer, p Page) error {
	var page bytes.Buffer
	for limit := mostOps; limit == mostOps || page.Len() > largest && limit > 4; limit = limit * 2 / 3 {
		var charts []*picture
		for _, c := range p.Charts {
			charts = append(charts, newPicture(c, limit))
		}
		page.Reset()
		if err := pages.Execute(&page, map[string]any{"Page": p, "Charts": charts, "Legend": legendOf(charts...), "Mark": markLegend}); err != nil {
			return err
		}
	}
	_, err := page.WriteTo(w)
	return err
}

//go:embed page.html
var source string

var pages = template.Must(template.New("page").Funcs(template.FuncMap{
	"clean": clean,
	"lines": func(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") },
}).Parse(source))

// Line is a line of the text, without a line break at its end.
type Line struct {
	Text string
	Tone Tone // for its colour
}

// Tone is what a row is about.
type Tone string

// The tones, which are classes of the page. A plain row has none.
const (
	Dim     Tone = "dim"        // beside the events
	Paused  Tone = "pause"      // a fault
	Refused Tone = "refused"    // a write, a claim or a unit
	Bad     Tone = "bad"        // an op that breaks a rule
	Broken  Tone = "bad breaks" // the rule
)

// legend explains the signs. The page draws the states instead of their signs.
var legend = []struct{ Sign, State, Text string }{
	{"┃", held, "has a lease"}, {"z", paused, "paused"}, {"┊", waiting, "waits"}, {"•", "", "event"}, {"✓", "", "accepted"},
	{"✗", "", "refused"}, {"?", "", "unknown: no answer"}, {"!", "", "failed"}, {"◆", "", "observed"}, {"↓", "", "mark fell"},
}

// markLegend explains the mark.
const markLegend = "The mark is the number accepted last. A lower number is stale."

// legendOf returns the legend of the signs that the pictures have.
func legendOf(pictures ...*picture) []struct{ Sign, State, Text string } {
	var all strings.Builder
	for _, p := range pictures {
		for _, r := range p.Rows {
			all.WriteString(r.Sign + r.Mark + strings.Join(r.States, ""))
		}
	}
	return slices.DeleteFunc(slices.Clone(legend), func(k struct{ Sign, State, Text string }) bool {
		return !strings.Contains(all.String(), cmp.Or(k.State, k.Sign))
	})
}

// Lines returns the chart as text: the rows and the notes, without the title.
func (c Chart) Lines() []Line {
	p := newPicture(c, mostOps)
	times, lane, marks := 2, 2, len("mark")
	for _, r := range p.Rows {
		times, marks = max(times, width(r.Time)), max(marks, width(r.Mark))
	}
	for _, name := range p.Lanes {
		lane = max(lane, min(width(name), 4))
	}
	head := fmt.Sprintf("%*s  ", times, "ms")
	for _, name := range p.Lanes[1:] {
		head += fmt.Sprintf("%-*s ", lane, clean(name, lane))
	}
	lines := []Line{{fmt.Sprintf("%s%-*s  %s", head, marks, "mark", p.Resource), Dim}}
	for _, r := range p.Rows {
		text := fmt.Sprintf("%*s  ", times, r.Time)
		for i := range p.Lanes[1:] {
			text += fmt.Sprintf("%-*s ", lane, r.cell(i+1))
		}
		if r.Mark == "" && r.mark > 0 {
			r.Mark = "│"
		}
		text += fmt.Sprintf("%-*s  %s", marks, r.Mark, r.Who)
		for _, w := range r.Words {
			text += w.Text
		}
		lines = append(lines, Line{text, r.Tone})
	}
	signs := ""
	for _, k := range legendOf(p) {
		signs += k.Sign + " " + k.Text + "  "
	}
	for _, note := range append(p.Notes, strings.TrimSpace(signs), markLegend) {
		lines = append(lines, Line{note, Dim})
	}
	return lines
}

// cell returns what a lane shows: a character for its lease, and one for what it does.
func (r row) cell(lane int) string {
	lease, does := " ", " "
	if strings.Contains(r.States[lane], held) {
		lease = "┃"
	}
	switch {
	case lane == r.Lane && r.Sign != "":
		does = r.Sign
	case strings.Contains(r.States[lane], paused):
		does = "z"
	case strings.Contains(r.States[lane], waiting):
		does = "┊"
	}
	return lease + does
}

func width(text string) int { return utf8.RuneCountInString(text) }
