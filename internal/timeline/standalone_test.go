package timeline

import (
	"io"
	"strings"
)

// WriteSVG writes one chart alone, for a README. It has a white background, so that it
// can be read on any page.
func WriteSVG(w io.Writer, s Chart) error {
	_, err := io.WriteString(w, standalone(newFigure(newStory(s).cut(limits[0]), s)))
	return err
}

// legendRow draws the legend of a figure alone, and returns its height.
func legendRow(c *canvas, signs []sign, width, y float64) float64 {
	x, top := 0.0, y
	for _, s := range signs {
		long := s.wide + 6 + wide(s.words, 11) + 18
		if x > 0 && x+long > width {
			x, y = 0, y+20
		}
		c.add(`<g class="h0" transform="translate(%v %v)">`, x, y)
		s.draw(c)
		c.add("</g>")
		c.text("soft", x+s.wide+6, y+4, s.words)
		x += long
	}
	return y + 20 - top
}

// standalone returns a figure as one drawing: names, plot, legend and notes.
func standalone(f *figure) string {
	const edge, head = 20.0, 44.0
	inner, legendTop := &canvas{}, head+f.height+26
	width := max(f.gutter+f.width, 420)
	foot := legendRow(inner, legend([]*figure{f}), width, legendTop)
	for _, note := range wrap(strings.Join(append(f.notes(), f.scaled()), " "), 11, width, 4) {
		inner.text("soft", 0, legendTop+foot+8, note)
		foot += 16
	}
	width, height := width+2*edge, legendTop+foot+edge
	c := &canvas{}
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" class="pic" width="%v" height="%v" viewBox="0 0 %v %v" role="img" aria-labelledby="t d">`, width, height, width, height)
	c.add("<title id=\"t\">%s</title><desc id=\"d\">%s</desc>\n<style>%s</style>\n", escaped(f.chart.Title), escaped(f.describe()), figureCSS)
	c.add(`<rect width="%v" height="%v" rx="8" fill="#fff"/>`, width, height)
	c.add(`<g transform="translate(%v 0)">`, edge)
	c.text("title", 0, 30, fit(visible(f.chart.Title), 15, width-2*edge))
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
