package history

import (
	"cmp"
	"fmt"
)

// versions judges accepted writes by the versions that they read and made.
//
// It is sound where every write on the resource is in the history: the versions
// it judges are told by the resource itself. A version that nobody is known to
// have made is missed only if there is no unknown write that may have made it.
func versions(s *story) *Violation {
	made := filter(s.changes, tells)
	for _, op := range made {
		if op.Seen > 0 && op.Made != op.Seen+1 {
			return violation(fmt.Sprintf("This write read version %d and made version %d: what came between was lost.", op.Seen, op.Made), op)
		}
	}
	rising := sorted(made, byMade)
	if v := unordered(rising); v != nil {
		return v
	}
	for top, op := range before(filter(s.ended, tells), made, byMade) {
		if op.Made < top.Made {
			return violation(fmt.Sprintf("Version %d was made, and after that version %d.", top.Made, op.Made), top, op)
		}
	}
	return gap(s, rising)
}

// tells says that op was accepted and names the version that it made.
func tells(op *Op) bool { return op.Outcome == Accepted && op.Made > 0 }

func byMade(a, b *Op) int { return cmp.Compare(a.Made, b.Made) }

// unordered finds two writes that made one version, or a greater version under
// a lesser number.
func unordered(rising []*Op) *Violation {
	var last, top *Op
	for _, op := range rising {
		if last != nil && op.Made == last.Made {
			return violation(fmt.Sprintf("Version %d was made twice: one of the two writes was lost.", op.Made), last, op)
		}
		if last = op; op.Number == 0 {
			continue
		}
		if top != nil && op.Number < top.Number {
			return violation(fmt.Sprintf("#%d made version %d, and #%d, which is less, the later version %d.",
				top.Number, top.Made, op.Number, op.Made), top, op)
		}
		top = op
	}
	return nil
}
