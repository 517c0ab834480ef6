package picture

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// drawAxis draws the time, in milliseconds since the first op shown.
func (f *figure) drawAxis(c *canvas) {
	y := f.height - 24
	c.line("axis", 0, y, f.width, y)
	for _, x := range f.scale.x[:len(f.scale.x)-1] {
		c.line("axis", x, y, x, y+4)
	}
	for _, i := range f.scale.breaks {
		if i+2 < len(f.scale.x) {
			x := (f.scale.x[i] + f.scale.x[i+1]) / 2
			c.add(`<path class="gap" d="M%v %vl4 -10h5l-4 10z"/>`, x-4, y+5)
			c.add(`<path class="axis" d="M%v %vl4 -10m5 0l-4 10"/>`, x-4, y+5)
		}
	}
	for _, i := range f.ticks() {
		class := "time"
		if f.callout.rule != "" && f.scale.at[i] == f.callout.at {
			class = "time bad"
		}
		c.text(class, f.scale.x[i], y+17, f.millis(f.scale.at[i]))
	}
}

// ticks are the instants whose times are written: that of the violation, the
// first, and those for which there is room.
func (f *figure) ticks() []int {
	var kept []int
	try := func(i int) {
		if f.scale.x[i]+wide(f.millis(f.scale.at[i]), 11)/2 > f.width {
			return
		}
		near := func(j int) bool {
			return abs(int(f.scale.x[i]-f.scale.x[j])) < int(wide(f.millis(f.scale.at[i])+f.millis(f.scale.at[j]), 11)/2+8)
		}
		same := func(j int) bool { return f.millis(f.scale.at[i]) == f.millis(f.scale.at[j]) }
		if !slices.ContainsFunc(kept, near) && !slices.ContainsFunc(kept, same) {
			kept = append(kept, i)
		}
	}
	if f.callout.rule != "" {
		try(f.scale.index(f.callout.at))
	}
	for i := range f.scale.at[:len(f.scale.at)-1] {
		try(i)
	}
	return kept
}

// millis says an instant, with as many decimals as the scene is short.
func (f *figure) millis(at time.Duration) string { return millis(at-f.from, f.to-f.from) }

func millis(d, all time.Duration) string {
	decimals := 0
	for limit := time.Second; decimals < 3 && all < limit; limit /= 10 {
		decimals++
	}
	text := strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', decimals, 64)
	if strings.Trim(text, "0.") == "" {
		return "0"
	}
	return text
}
