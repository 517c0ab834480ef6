package picture

import "github.com/fencepost/fencepost/simulations/history"

func (f *figure) drawLease(c *canvas, l lease) {
	y, half := f.middle(f.laneOf[l.writer]), f.half()
	x, end := f.scale.of(max(l.from, f.from)), f.width
	ends := l.until <= f.to
	if ends {
		end = f.scale.of(l.until)
	}
	class := "lease"
	if l.unheard {
		class = "lease unheard"
	}
	c.rect(class, x, y-half, max(end-x, 1), 2*half)
	if l.from >= f.from {
		c.line("edge", x, y-half, x, y+half)
	}
	if ends {
		c.line("edge", end, y-half, end, y+half)
	}
}

func (f *figure) drawFault(c *canvas, op *history.Op) {
	y, half := f.middle(f.laneOf[op.Writer]), f.half()
	x, end := f.scale.of(op.Began), f.scale.of(op.Ended)
	c.add("<g>")
	if end > x {
		c.hatch(x, y, end-x, 2*half+4)
	} else {
		c.add(`<path class="shock" d="M%v %vl4 -9h-8z"/>`, x, y+2)
	}
	c.add("<title>%s</title></g>", escaped(f.sentence(op)))
}
