package picture

import "github.com/fencepost/fencepost/simulations/history"

// lands says that op is drawn at the resource: it asked something of it.
func (f *figure) lands(op *history.Op) bool {
	return op.Kind == history.Claim || op.Kind == history.Write || f.bare[op]
}

// bareUnits are the units of work of which nobody recorded the writes, such as
// those that were refused before they wrote.
func bareUnits(ops []*history.Op) map[*history.Op]bool {
	bare := map[*history.Op]bool{}
	for i, unit := range ops {
		if unit.Kind != history.Unit {
			continue
		}
		bare[unit] = true
		for _, op := range ops[i:] {
			if op.Began > unit.Ended {
				break
			}
			if op.Kind == history.Write && op.Writer == unit.Writer {
				bare[unit] = false
			}
		}
	}
	return bare
}

func (f *figure) drawRequest(c *canvas, l *lane, op *history.Op) {
	x, y := f.scale.of(op.Began), f.middle(l)
	toX, toY := f.scale.of(f.arrival(op)), f.fence.y(op.Number)
	class := "request"
	if op.Outcome == history.Unknown {
		class = "request unknown"
	}
	c.line(class, x, y, toX, toY)
	c.dot(x, y)
	f.ring(c, op, toX, toY)
	c.glyph(op.Kind, op.Outcome, toX, toY)
}
