package picture

import "strings"

// drawFence draws the mark: a staircase over the ground, and what of it fell.
func (f *figure) drawFence(c *canvas) {
	n := f.fence
	y := n.y(n.start)
	var path, falls strings.Builder
	canvasPath := canvas{}
	canvasPath.add("M%v %v", 0.0, y)
	for _, s := range n.steps {
		x := f.scale.of(s.at)
		canvasPath.add("H%vV%v", x, n.y(s.number))
		if s.fell {
			fall := canvas{}
			fall.add("M%v %vV%v", x, y, n.y(s.number))
			falls.WriteString(fall.String())
		}
		y = n.y(s.number)
	}
	canvasPath.add("H%v", f.width)
	path.WriteString(canvasPath.String())
	c.add(`<path class="below" d="%sV%vH0z"/>`, path.String(), n.ground()+6)
	c.add(`<path class="mark" d="%s"/>`, path.String())
	if falls.Len() > 0 {
		c.add(`<path class="fall" d="%s"/>`, falls.String())
	}
}
