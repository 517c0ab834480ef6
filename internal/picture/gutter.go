package picture

import "slices"

// boldSize and boldSmall are how large bold texts of 13 and 11 pixels count.
const boldSize, boldSmall = 14.2, 12.0

// drawGutter draws the names of the lanes, which stay in sight when the plot is
// moved.
func (f *figure) drawGutter(c *canvas) {
	x := f.gutter - 10
	for _, l := range f.lanes {
		c.group(l.hue, func() {
			c.add("<g>")
			c.text("name end", x, f.middle(l)+4, fit(visible(l.name), boldSize, f.gutter-14))
			c.add("<title>%s</title></g>", escaped(l.name))
		})
	}
	c.text("place end", x, f.fence.top+8, fit(visible(f.resource), boldSmall, f.gutter-14))
	f.drawLevels(c, x)
	if f.fence.looks {
		c.text("soft end", x, f.fence.ground()+24, "seen")
	}
	c.text("soft end", x, f.height-7, "ms")
}

// drawLevels names the numbers that there is room for, those of the violation
// first.
func (f *figure) drawLevels(c *canvas, x float64) {
	var kept []float64
	draw := func(number int64) {
		y := f.fence.y(number)
		if slices.ContainsFunc(kept, func(other float64) bool { return abs(int(y-other)) < 12 }) {
			return
		}
		kept = append(kept, y)
		c.group(f.hueOf(number), func() { c.text("level end", x, y+4, f.numbers.short(number)) })
	}
	for _, op := range f.shown {
		if f.isBad(op) && f.lands(op) {
			draw(op.Number)
		}
	}
	for _, number := range f.fence.levels {
		draw(number)
	}
	c.text("soft end", x, f.fence.ground()+4, "mark")
}

// hueOf is that of the writer who was given a number.
func (f *figure) hueOf(number int64) int {
	for _, l := range f.held {
		if l.number == number {
			return f.laneOf[l.writer].hue
		}
	}
	for _, op := range f.shown {
		if op.Number == number && f.laneOf[op.Writer] != nil {
			return f.laneOf[op.Writer].hue
		}
	}
	return -1
}

// measure finds how wide the names are.
func (f *figure) measure() {
	f.gutter = 62
	for _, l := range f.lanes {
		f.gutter = max(f.gutter, wide(visible(l.name), boldSize)+20)
	}
	for _, number := range f.fence.levels {
		f.gutter = max(f.gutter, wide(f.numbers.short(number), 11)+20)
	}
	f.gutter = min(max(f.gutter, min(wide(visible(f.resource), boldSmall)+20, 96)), 132)
}
