package crowd

import (
	"errors"
	"slices"
	"time"

	"github.com/fencepost/fencepost/bench/measure"
)

// What is read off a block. Times are in seconds.
const (
	HandOverP50 = "hand-over p50"
	HandOverP99 = "hand-over p99"
	WaitP99     = "wait p99"
	Rate        = "acquires a second"
	Sent        = "sent an acquire"
	Fairness    = "fairness"
)

// seen is what one waiter saw, in seconds.
type seen struct {
	count            int // of acquisitions
	waits, handOvers []float64
}

func (s *seen) waited(asked, until time.Duration) {
	s.waits = append(s.waits, (until - asked).Seconds())
}

func (s *seen) granted(asked, granted, released time.Duration) {
	s.count++
	s.waited(asked, granted)
	if asked < released {
		s.handOvers = append(s.handOvers, (granted - released).Seconds())
	}
}

var errTooShort = errors.New("nobody had it: the block is too short")

// read needs one acquisition. Where nobody was handed anything, since whoever gave
// it back was always quicker, the hand-over counts as long as the block.
func read(all []seen, d time.Duration, sent int64) (measure.Reading, error) {
	var waits, handOvers, counts []float64
	var acquired int
	for _, s := range all {
		waits, handOvers = append(waits, s.waits...), append(handOvers, s.handOvers...)
		counts = append(counts, float64(s.count))
		acquired += s.count
	}
	if acquired == 0 {
		return nil, errTooShort
	}
	if len(handOvers) == 0 {
		handOvers = append(handOvers, d.Seconds())
	}
	slices.Sort(waits)
	slices.Sort(handOvers)
	return measure.Reading{
		measure.Operations: float64(acquired),
		HandOverP50:        measure.Quantile(handOvers, 0.5),
		HandOverP99:        measure.Quantile(handOvers, 0.99),
		WaitP99:            measure.Quantile(waits, 0.99),
		Rate:               float64(acquired) / d.Seconds(),
		Sent:               float64(sent) / float64(acquired),
		Fairness:           jain(counts),
	}, nil
}

// jain is the square of the sum, divided by n times the sum of the squares.
func jain(counts []float64) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += c
		squares += c * c
	}
	return sum * sum / (float64(len(counts)) * squares)
}
