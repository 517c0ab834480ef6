package picture

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// canvas is SVG under way.
type canvas struct{ strings.Builder }

// px is a length, to a tenth of a pixel.
type px float64

func (x px) String() string {
	return strconv.FormatFloat(math.Round(float64(x)*10)/10, 'f', -1, 64)
}

// add writes markup whose arguments are lengths, classes or escaped texts.
func (c *canvas) add(format string, args ...any) {
	for i, arg := range args {
		if x, ok := arg.(float64); ok {
			args[i] = px(x)
		}
	}
	fmt.Fprintf(c, format, args...)
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	c.add(`<path class="%s" d="M%v %vL%v %v"/>`, class, x1, y1, x2, y2)
}

func (c *canvas) rect(class string, x, y, w, h float64) {
	c.add(`<rect class="%s" x="%v" y="%v" width="%v" height="%v"/>`, class, x, y, w, h)
}

// text writes what is not yet escaped.
func (c *canvas) text(class string, x, y float64, text string) {
	c.add(`<text class="%s" x="%v" y="%v">%s</text>`, class, x, y, escaped(text))
}

// group puts what draw draws into a hue; -1 is none.
func (c *canvas) group(hue int, draw func()) {
	if hue < 0 {
		draw()
		return
	}
	c.add(`<g class="h%d">`, hue)
	draw()
	c.add("</g>")
}

// hatch shades a span of a lane: a thick dashed line, set aslant.
func (c *canvas) hatch(x, y, w, h float64) {
	slant := h / 2 * math.Tan(math.Pi/6)
	w = max(w-2*slant, 0)
	c.add(`<path class="hatch" transform="translate(%v %v)skewX(-30)" stroke-width="%v" d="M0 0h%v"/>`, x+slant, y, h, w)
}
