package history

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"
)

// versions judges accepted writes by the versions that they read and made.
//
// It is sound if every write on the resource is in the history: the versions come from
// the resource itself. A version that no known write made is a violation only if no write
// with an unknown outcome can have made it.
func versions(s *story) *Violation {
	made := filter(s.changes, tells)
	for _, op := range made {
		if op.Seen > 0 && op.Made != op.Seen+1 {
			return violation(fmt.Sprintf("This write read version %d and made version %d: what came between was lost.", op.Seen, op.Made), op).
				expect("%s read version %d, so it should have made version %d, or failed.", requestOf(op), op.Seen, op.Seen+1)
		}
	}
	rising := sorted(made, byMade)
	if v := unordered(rising); v != nil {
		return v
	}
	for top, op := range before(filter(s.ended, tells), made, byMade) {
		if op.Made < top.Made {
			return violation(fmt.Sprintf("Version %d was made, and after that version %d.", top.Made, op.Made), top, op).
				expect("%s should have made at least version %d.", requestOf(op), top.Made+1)
		}
	}
	return gap(s, rising)
}

// tells reports whether op was accepted and has the version that it made.
func tells(op *Op) bool { return op.Outcome == Accepted && op.Made > 0 }

func byMade(a, b *Op) int { return cmp.Compare(a.Made, b.Made) }

// unordered finds two writes that made the same version, or a lesser number that made a
// greater version.
func unordered(rising []*Op) *Violation {
	var last, top *Op
	for _, op := range rising {
		if last != nil && op.Made == last.Made {
			return violation(fmt.Sprintf("Version %d was made twice: one of the two writes was lost.", op.Made), last, op).
				expect("One of the two writes should have read version %d, and made a later one, or failed.", op.Made)
		}
		if last = op; op.Number == 0 {
			continue
		}
		if top != nil && op.Number < top.Number {
			return violation(fmt.Sprintf("#%d made version %d, and #%d, which is less, the later version %d.",
				top.Number, top.Made, op.Number, op.Made), top, op).
				expect("%s should have been refused: the mark was at least #%d.", requestOf(op), top.Number)
		}
		top = op
	}
	return nil
}

// missed is a version that no accepted write made, between two versions that accepted
// writes made.
type missed struct {
	version   int64
	below     *Op // made the next lower known version
	above     *Op // made the next greater
	low, high int64
	since, by time.Duration // the times at which it can have been made
}

// gap finds a version that no known write made. Each missed version is a step that an
// unknown write may explain, or a refused one that trace accuses.
func gap(s *story, rising []*Op) *Violation {
	if len(rising) == 0 {
		return nil
	}
	guesses, ends := guessesOf(s), s.expiries()
	gaps := missedOf(rising, len(guesses)+1)
	var spans []span
	for _, op := range guesses {
		spans = append(spans, spanIn(gaps, op, ends(op)))
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.first - b.first })
	k := unexplained(spans, len(gaps))
	if k == 0 {
		return nil
	}
	m := gaps[k-1]
	return violation(fmt.Sprintf("No write can have made version %d.", m.version), m.below, m.above).
		expect("%s should have made version %d: no other write is known that can have made it.", requestOf(m.above), m.version)
}

// missedOf returns at most limit missed versions.
func missedOf(rising []*Op, limit int) []missed {
	var gaps []missed
	var low int64
	since := -never
	for i := 1; i < len(rising); i++ {
		below, above := rising[i-1], rising[i]
		low, since = max(low, below.Number), max(since, below.Began)
		for v := below.Made + 1; v < above.Made && len(gaps) < limit; v++ {
			gaps = append(gaps, missed{v, below, above, low, 0, since, 0})
		}
	}
	high, by := int64(never), never
	j := len(rising) - 1
	for i := len(gaps) - 1; i >= 0; i-- {
		for ; j >= 0 && rising[j].Made > gaps[i].version; j-- {
			by = min(by, rising[j].Ended)
			if rising[j].Number > 0 {
				high = min(high, rising[j].Number)
			}
		}
		gaps[i].high, gaps[i].by = high, by
	}
	return gaps
}

// guessesOf returns the writes that may have made a missed version.
func guessesOf(s *story) []*Op {
	seen, owners := ghosts(s), s.owners()
	return filter(s.changes, func(op *Op) bool {
		return op.Kind == Write && (op.Outcome == Unknown && owners.allow(op) || undone(op) && seen[op.Made][0] != nil)
	})
}

// spanIn returns which of gaps op may have made, counted from 1.
func spanIn(gaps []missed, op *Op, expires time.Duration) span {
	first := sort.Search(len(gaps), func(i int) bool {
		return gaps[i].by >= op.Began && (op.Number == 0 || gaps[i].high >= op.Number)
	})
	after := sort.Search(len(gaps), func(i int) bool {
		return gaps[i].since > expires || op.Number > 0 && gaps[i].low > op.Number
	})
	if version := madeBy(op); version > 0 {
		first = max(first, sort.Search(len(gaps), func(i int) bool { return gaps[i].version >= version }))
		after = min(after, sort.Search(len(gaps), func(i int) bool { return gaps[i].version > version }))
	}
	if expires < op.Began || op.Made > 0 && op.Seen > 0 && op.Made != op.Seen+1 {
		after = 0
	}
	return span{op, first + 1, after}
}

// madeBy returns the version that op makes if it is applied, or 0.
func madeBy(op *Op) int64 {
	if op.Made == 0 && op.Seen > 0 {
		return op.Seen + 1
	}
	return op.Made
}

// expiries returns a function that returns the time until which op can have been admitted:
// the time at which a greater number was at the mark.
func (s *story) expiries() func(op *Op) time.Duration {
	rising := sorted(slices.Concat(s.accepted, s.marks), byNumber)
	ended := make([]time.Duration, len(rising)+1) // the first end of each op and all after it
	ended[len(rising)] = never
	for i := len(rising) - 1; i >= 0; i-- {
		ended[i] = min(ended[i+1], rising[i].Ended)
	}
	return func(op *Op) time.Duration {
		if op.Number == 0 {
			return never
		}
		return ended[sort.Search(len(rising), func(i int) bool { return rising[i].Number > op.Number })]
	}
}
