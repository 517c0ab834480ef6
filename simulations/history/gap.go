package history

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// missed is a version that no accepted write made, between two that were.
type missed struct {
	version   int64
	below     *Op // made the next lower known version
	above     *Op // made the next greater
	low, high int64
	since, by time.Duration // when it can have been made
}

// gap finds a version that nobody made. Each missed version is a step that an
// unknown write may explain, or a refused one that trace accuses.
func gap(s *story, rising []*Op) *Violation {
	if len(rising) == 0 {
		return nil
	}
	guesses, ends := guessesOf(s), s.expiries()
	gaps := missedOf(rising, len(guesses)+1)
	var spans []span
	for _, op := range guesses {
		spans = append(spans, spanIn(gaps, op, ends.of(op)))
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.first - b.first })
	k := unexplained(spans, len(gaps))
	if k == 0 {
		return nil
	}
	m := gaps[k-1]
	return violation(fmt.Sprintf("Nobody can have made version %d.", m.version), m.below, m.above)
}

// missedOf returns the missed versions, at most limit.
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
