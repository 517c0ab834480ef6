package picture

import "strings"

// alone is a figure by itself: names, plot, legend and notes in one drawing.
func alone(f *figure) string {
	const edge, head = 20.0, 44.0
	inner, legendTop := &canvas{}, head+f.height+26
	width := max(f.gutter+f.width, 420)
	foot := legendRow(inner, legend([]*figure{f}), width, legendTop)
	for _, note := range wrap(strings.Join(f.notes(), " "), 11, width, 4) {
		inner.text("soft", 0, legendTop+foot+8, note)
		foot += 16
	}
	width, height := width+2*edge, legendTop+foot+edge
	c := &canvas{}
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" class="pic" width="%v" height="%v" viewBox="0 0 %v %v" role="img" aria-labelledby="t d">`, width, height, width, height)
	c.add("<title id=\"t\">%s</title><desc id=\"d\">%s</desc>\n<style>%s</style>\n", escaped(f.scene.Title), escaped(f.describe()), figureCSS)
	c.add(`<rect width="%v" height="%v" rx="8" fill="#fff"/>`, width, height)
	c.add(`<g transform="translate(%v 0)">`, edge)
	c.text("title", 0, 30, fit(visible(f.scene.Title), 15, width-2*edge))
	c.add(`<g transform="translate(0 %v)">`, head)
	if len(f.shown) == 0 {
		c.text("soft", 0, 14, "Nothing happened: the history is empty.")
	} else {
		f.drawGutter(c)
		c.add(`<g transform="translate(%v 0)">`, f.gutter)
		f.draw(c)
		c.add("</g>")
	}
	c.add("</g>%s</g></svg>\n", inner.String())
	return c.String()
}
