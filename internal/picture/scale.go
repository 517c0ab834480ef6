package picture

import (
	"math"
	"slices"
	"sort"
	"time"
)

// scale says where each instant lies. Between two of them there is a spring,
// which grows slowly with the time between them, and rods keep apart what is
// written there: the order is exact, distances are not.
type scale struct {
	at     []time.Duration // instants, each once
	x      []float64
	breaks []int // the instants after which far more time passes than is drawn
}

// rod keeps two instants apart.
type rod struct {
	from, to int
	long     float64
}

const (
	start = 16.0  // of the first instant
	most  = 190.0 // between two of them, without a rod
)

// least is the least between two of n instants.
func least(n int) float64 { return min(max(600/float64(n), 4), 9) }

// newScale lays instants out up to width, or beyond it where there is no room.
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

// shortest is the least width that rods leave.
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

// index finds an instant; between two of them it is the later.
func (s *scale) index(at time.Duration) int {
	return min(sort.Search(len(s.at), func(i int) bool { return s.at[i] >= at }), len(s.at)-1)
}

func (s *scale) of(at time.Duration) float64 { return s.x[s.index(at)] }
