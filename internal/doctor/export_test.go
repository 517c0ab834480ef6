package doctor

import "time"

// Judge is for clocks that no test can set: what comes of a difference that is
// somewhere between two.
func Judge(least, most time.Duration) Verdict {
	a, _ := offset{least, most}.judge()
	return a.verdict
}

// Narrow puts the differences together that several looks leave possible.
func Narrow(looks ...[2]time.Duration) (least, most time.Duration) {
	var o offset
	for i, l := range looks {
		o = o.narrowed(offset{l[0], l[1]}, i == 0)
	}
	return o.least, o.most
}
