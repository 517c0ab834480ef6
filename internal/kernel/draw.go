package kernel

import "time"

// flip is heads every other time.
func (w *world) flip() bool { return w.draw.Uint64()&1 == 0 }

// chance is true percent times of a hundred.
func (w *world) chance(percent int) bool { return percent > 0 && w.draw.IntN(100) < percent }

// work is how long work takes: a moment, or longer.
func (w *world) work() time.Duration {
	if w.chance(25) {
		return w.upTo(ttl)
	}
	return w.upTo(ttl / 20)
}

// upTo is a time below d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.draw.Int64N(int64(d))) }
