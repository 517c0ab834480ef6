package history

import (
	"fmt"
	"slices"
)

// trace judges what was refused, or failed, by three kinds of evidence: it was
// looked for and found; another write read the version that only it made; or a
// read counted more units than were accepted or may have been, and no more than
// with the refused ones.
//
// It is sound: the outcomes Refused and Failed promise that nothing was, or will
// be, applied.
func trace(s *story) *Violation {
	for _, op := range s.changes {
		if undone(op) && op.Counted > 0 {
			return violation(fmt.Sprintf("This %s was %s, and is remembered.", op.Kind, op.Outcome), op)
		}
	}
	if v := seenTrace(s); v != nil {
		return v
	}
	return countedTrace(s)
}

func undone(op *Op) bool { return op.Outcome == Refused || op.Outcome == Failed }

// ghosts returns the versions that only refused or failed writes made, and of
// each the write that read it.
func ghosts(s *story) map[int64][2]*Op {
	made, real := make(map[int64]*Op), make(map[int64]bool)
	for _, op := range s.changes {
		if op.Made > 0 && undone(op) {
			made[op.Made] = op
		} else if op.Kind == Write && !undone(op) {
			real[op.Made] = true // 0: one that is not known may be any
		}
	}
	seen := make(map[int64][2]*Op)
	if len(made) == 0 {
		return seen
	}
	for _, op := range s.changes {
		if ghost := made[op.Seen]; ghost != nil && !real[op.Seen] && !real[0] && seen[op.Seen][0] == nil {
			seen[op.Seen] = [2]*Op{ghost, op}
		}
	}
	return seen
}

func seenTrace(s *story) *Violation {
	var first [2]*Op
	for _, pair := range ghosts(s) {
		if first[1] == nil || pair[1].Began < first[1].Began {
			first = pair
		}
	}
	if first[1] == nil {
		return nil
	}
	return violation(fmt.Sprintf("Version %d was %s, and yet it was read.", first[0].Made, first[0].Outcome), first[0], first[1])
}

// countedTrace finds the first read that counted units which were refused.
func countedTrace(s *story) *Violation {
	possible := 0
	began := s.units
	explained := 0
	for _, read := range s.counted {
		for len(began) > 0 && began[0].Began <= read.Ended {
			if undone(began[0]) {
				explained++
			} else {
				possible++
			}
			began = began[1:]
		}
		if over := read.Counted - possible; over > 0 && over <= explained {
			return violation(fmt.Sprintf("%d units were counted, but only %d were accepted or may have been, and %d were not.",
				read.Counted, possible, explained), append(slices.Clone(s.units[:len(s.units)-len(began)]), read)...)
		}
	}
	return nil
}
