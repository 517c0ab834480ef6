package picture

import (
	"fmt"
	"strings"
)

// page is the whole file.
func page(p Page, stories []*story, limit int) string {
	figures := make([]*figure, len(stories))
	for i, st := range stories {
		figures[i] = newFigure(st.cut(limit), p.Scenes[i])
	}
	c := &canvas{}
	c.add("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n")
	c.add("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n")
	c.add("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n")
	c.add("<title>%s</title>\n<style>\n%s%s</style></head>\n<body><main>\n", escaped(p.Title), figureCSS, pageCSS)
	c.add("<header><h1>%s</h1>\n%s</header>\n", escaped(p.Title), paragraphs(p.Lead))
	for i, f := range figures {
		small := f.scene.Small
		if small && (i == 0 || !figures[i-1].scene.Small) {
			c.add("<div class=\"small\">\n")
		}
		key := ""
		if i == 0 {
			key = legendList(legend(figures))
		}
		f.section(c, i, key)
		if small && (i+1 == len(figures) || !figures[i+1].scene.Small) {
			c.add("</div>\n")
		}
	}
	if p.Again != "" {
		c.add("<section><h2>Have it again</h2><pre tabindex=\"0\"><code>%s</code></pre></section>\n", escaped(p.Again))
	}
	c.add("</main></body></html>\n")
	return c.String()
}

func (f *figure) section(c *canvas, i int, key string) {
	c.add("<section>\n<h2>%s</h2>\n%s", escaped(f.scene.Title), paragraphs(f.scene.Lead))
	if f.broken != nil {
		c.add("<p class=\"verdict\"><b>Broken: %s.</b> %s<br>%s</p>\n", escaped(f.broken.Rule.ID), escaped(f.broken.Rule.Words), escaped(f.broken.Why))
	}
	c.add("<figure>")
	f.panels(c, i)
	c.add("<figcaption>%s<span class=\"move\">Move the picture sideways to see all of it. </span>%s</figcaption></figure>\n%s</section>\n",
		key, escaped(strings.Join(f.notes(), " ")), f.table())
}

// panels are the names, which stay, and the plot, which can be moved.
func (f *figure) panels(c *canvas, i int) {
	if len(f.shown) == 0 {
		c.add("<p>Nothing happened: the history is empty.</p>")
		return
	}
	c.add(`<div class="plot" tabindex="0">`)
	c.add(`<svg class="pic gutter" style="--w:%v" width="%v" height="%v" viewBox="0 0 %v %v" aria-hidden="true">`, f.gutter, f.gutter, f.height, f.gutter, f.height)
	f.drawGutter(c)
	c.add(`</svg><svg class="pic" style="--w:%v" width="%v" height="%v" viewBox="0 0 %v %v" role="img" aria-labelledby="t%d d%d">`, f.width, f.width, f.height, f.width, f.height, i, i)
	c.add("<title id=\"t%d\">%s</title><desc id=\"d%d\">%s</desc>\n", i, escaped(f.scene.Title), i, escaped(f.describe()))
	f.draw(c)
	c.add("</svg></div>\n")
}

// notes are what must be said of a figure.
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
	if len(f.shown) > 0 {
		notes = append(notes, "The order of instants is exact, their distances are not to scale.")
	}
	return notes
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
