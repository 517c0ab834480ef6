package timeline

import (
	"fmt"
	"io"
	"strings"

	"github.com/fencepost/fencepost/internal/history"
)

// Page is the content of a page, from the top down.
type Page struct {
	Title string // one sentence
	// Likely are the mistakes that probably led to the history, each a sentence. They
	// come first after the title. Empty: none.
	Likely []string
	Lead   string // a paragraph; empty: none
	Again  string // the command that repeats the run; empty: none
	Charts []Chart
}

// Chart is one history: a lane for each writer, time from left to right.
type Chart struct {
	Title string
	Lead  string // empty: none
	// History is drawn whether it was judged or not. If it has several resources, the
	// chart shows the resource of the first violation, or else the one with the most ops.
	History history.History
	// Violations may be empty. The chart shows the ops around the first one, and marks
	// the instant at which the last of its ops ended. Expected is printed with each.
	Violations []history.Violation
	// Small has half the width and only the most important labels. The zero value is full
	// size.
	Small bool
}

// limits are the numbers of ops that a chart shows at most. The first one that makes the
// page small enough is used.
var limits = []int{110, 80, 60, 40, 24, 12}

// largest is the maximal size of a page in bytes.
const largest = 100_000

// Write writes the page as HTML.
func Write(w io.Writer, p Page) error {
	stories := make([]*story, len(p.Charts))
	for i, s := range p.Charts {
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

// page returns the whole file.
func page(p Page, stories []*story, limit int) string {
	figures := make([]*figure, len(stories))
	for i, st := range stories {
		figures[i] = newFigure(st.cut(limit), p.Charts[i])
	}
	c := &canvas{}
	c.add("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n")
	c.add("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n")
	c.add("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n")
	c.add("<title>%s</title>\n<style>\n%s%s</style></head>\n<body><main>\n", escaped(p.Title), figureCSS, pageCSS)
	c.add("<header><h1>%s</h1>\n%s%s</header>\n", escaped(p.Title), likely(p.Likely), paragraphs(p.Lead))
	for i, f := range figures {
		small := f.chart.Small
		if small && (i == 0 || !figures[i-1].chart.Small) {
			c.add("<div class=\"small\">\n")
		}
		key := ""
		if i == 0 {
			key = legendList(legend(figures))
		}
		f.section(c, i, key)
		if small && (i+1 == len(figures) || !figures[i+1].chart.Small) {
			c.add("</div>\n")
		}
	}
	if p.Again != "" {
		c.add("<section><h2>Have it again</h2><pre><code>%s</code></pre></section>\n", escaped(p.Again))
	}
	c.add("</main></body></html>\n")
	return c.String()
}

func (f *figure) section(c *canvas, i int, key string) {
	title := strings.ReplaceAll(escaped(f.chart.Title), "/", "/<wbr>") // allows line breaks between the parts of a name
	c.add("<section>\n<h2>%s</h2>\n%s", title, paragraphs(f.chart.Lead))
	f.verdicts(c)
	c.add("<figure>")
	f.panels(c, i)
	c.add("<figcaption>%s%s <span class=\"plotted\">%s %s</span></figcaption></figure>\n%s</section>\n",
		key, escaped(strings.Join(f.notes(), " ")), f.scaled(), f.moved(), f.table())
}

// likely returns the mistakes for the beginning of a page.
func likely(mistakes []string) string {
	if len(mistakes) == 0 {
		return ""
	}
	c := &canvas{}
	c.add("<div class=\"likely\">\n")
	for _, mistake := range mistakes {
		c.add("<p><b>Likely:</b> %s</p>\n", escaped(mistake))
	}
	c.add("</div>\n")
	return c.String()
}

// mostVerdicts is how many violations of a chart are described.
const mostVerdicts = 4

// verdicts writes the violations of a chart, first the one that is drawn.
func (f *figure) verdicts(c *canvas) {
	all := f.chart.Violations
	for i, v := range all[:min(len(all), mostVerdicts)] {
		head := "Broken"
		if i > 0 {
			head = "Broken too"
		}
		c.add("<p class=\"verdict\"><b>%s: %s.</b> %s<br>%s", head, escaped(v.Rule.ID), escaped(v.Rule.Words), escaped(v.Why))
		if v.Expected != "" {
			c.add("<br><b>Expected:</b> %s", escaped(v.Expected))
		}
		c.add("</p>\n")
	}
	if more := len(all) - mostVerdicts; more > 0 {
		c.add("<p class=\"verdict\">Broken %d times more.</p>\n", more)
	}
}

// panels writes the names, which stay in place, and the plot, which scrolls.
func (f *figure) panels(c *canvas, i int) {
	if len(f.shown) == 0 {
		c.add("<p>Nothing happened: the history is empty.</p>")
		return
	}
	c.add(`<div class="plot" tabindex="0">`)
	c.add(`<svg class="pic gutter" style="--w:%v" width="%v" height="%v" viewBox="0 0 %v %v" aria-hidden="true">`, f.gutter, f.gutter, f.height, f.gutter, f.height)
	f.drawGutter(c)
	c.add(`</svg><svg class="pic" style="--w:%v" width="%v" height="%v" viewBox="0 0 %v %v" role="img" aria-labelledby="t%d d%d">`, f.width, f.width, f.height, f.width, f.height, i, i)
	c.add("<title id=\"t%d\">%s</title><desc id=\"d%d\">%s</desc>\n", i, escaped(f.chart.Title), i, escaped(f.describe()))
	f.draw(c)
	c.add("</svg></div>\n")
	f.list(c)
}

// notes returns the notes under a figure.
func (f *figure) notes() []string {
	var notes []string
	if f.numbers.shared != "" {
		notes = append(notes, fmt.Sprintf("#… stands for #%s, with which all numbers here begin.", f.numbers.shared))
	}
	if f.left > 0 {
		notes = append(notes, fmt.Sprintf("Cut out of a longer history: %d more ops are not shown.", f.left))
	}
	if f.elsewhere > 0 {
		notes = append(notes, fmt.Sprintf("%d more are about other resources.", f.elsewhere))
	}
	return notes
}

// scaled returns the note about distances. The list needs none.
func (f *figure) scaled() string {
	if len(f.shown) == 0 {
		return ""
	}
	return "The order of instants is exact, their distances are not to scale."
}

// moved returns the note for a plot that is wider than the page or than a narrow window.
func (f *figure) moved() string {
	if f.gutter+f.width > widest {
		return "Move the picture sideways to see all of it."
	}
	return `<span class="move">Move the picture sideways to see all of it.</span>`
}

func paragraphs(text string) string {
	var b strings.Builder
	for _, paragraph := range strings.Split(text, "\n") {
		if paragraph = strings.TrimSpace(paragraph); paragraph != "" {
			b.WriteString("<p>" + escaped(paragraph) + "</p>\n")
		}
	}
	return b.String()
}
