package timeline

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// scale maps instants to positions. Between two instants there is a spring, whose length
// grows slowly with the time between them, and rods keep the labels apart. The order is
// exact, distances are not.
type scale struct {
	at     []time.Duration // instants, each once
	x      []float64
	breaks []int // the instants after which far more time passes than is drawn
}

// rod is the least distance between two instants.
type rod struct {
	from, to int
	long     float64
}

const (
	start = 16.0  // position of the first instant
	most  = 190.0 // between two instants without a rod
)

// least returns the least distance between two of n instants.
func least(n int) float64 { return min(max(600/float64(n), 4), 9) }

// newScale positions instants up to width, or beyond it if they do not fit.
func newScale(at []time.Duration, rods []rod, width float64) scale {
	s := scale{at: at, x: make([]float64, len(at))}
	into := byEnd(at, rods)
	weight := s.weights()
	low, high := 0.0, most
	for range 40 {
		tension := (low + high) / 2
		if s.lay(into, weight, tension); s.end() > width {
			high = tension
		} else {
			low = tension
		}
	}
	s.lay(into, weight, low)
	return s
}

// shortest returns the least width that the rods allow.
func shortest(at []time.Duration, rods []rod) float64 {
	s := scale{at: at, x: make([]float64, len(at))}
	s.lay(byEnd(at, rods), make([]float64, len(at)), 0)
	return s.end()
}

func byEnd(at []time.Duration, rods []rod) [][]rod {
	into := make([][]rod, len(at))
	for _, r := range rods {
		into[r.to] = append(into[r.to], r)
	}
	return into
}

func (s *scale) lay(into [][]rod, weight []float64, tension float64) {
	least := least(len(s.at))
	for i := range s.x {
		if s.x[i] = start; i > 0 {
			s.x[i] = s.x[i-1] + min(max(least, tension*weight[i-1]), most)
		}
		for _, r := range into[i] {
			s.x[i] = max(s.x[i], s.x[r.from]+r.long)
		}
	}
}

// weights grow with the logarithm of the time between two instants.
func (s *scale) weights() []float64 {
	var gaps []time.Duration
	for i := range len(s.at) - 1 {
		gaps = append(gaps, s.at[i+1]-s.at[i])
	}
	if len(gaps) == 0 {
		return nil
	}
	ordered := slices.Sorted(slices.Values(gaps))
	usual := ordered[len(ordered)/2]
	weights := make([]float64, len(gaps))
	for i, gap := range gaps {
		weights[i] = math.Log1p(float64(gap) / float64(usual))
		if gap > 25*usual {
			s.breaks = append(s.breaks, i)
		}
	}
	return weights
}

func (s *scale) end() float64 {
	if len(s.x) == 0 {
		return 0
	}
	return s.x[len(s.x)-1]
}

// index returns the index of an instant, or of the next later one.
func (s *scale) index(at time.Duration) int {
	return min(sort.Search(len(s.at), func(i int) bool { return s.at[i] >= at }), len(s.at)-1)
}

func (s *scale) of(at time.Duration) float64 { return s.x[s.index(at)] }

// drawAxis draws the time in milliseconds since the first shown op.
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

// ticks returns the instants whose times are written: the violation's, the first, and as
// many others as fit.
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

// millis formats an instant, with more decimals in a shorter chart.
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
