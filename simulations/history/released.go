package history

import (
	"fmt"
	"time"
)

// afterRelease finds what was accepted from a holder who had given the resource
// back: renewing never acquires, not even what is free.
func afterRelease(s *story, asked []*Op) *Violation {
	granted := granted(s, asked)
	byHolder := make(map[string][]*Op)
	for _, op := range asked {
		byHolder[op.Holder] = append(byHolder[op.Holder], op)
	}
	for _, op := range asked {
		own := byHolder[op.Holder]
		delete(byHolder, op.Holder)
		released := filter(sorted(own, byEnded), func(op *Op) bool { return op.Kind == Release })
		for last, op := range before(released, own, byBegan) {
			if granted[op] <= last.Began {
				return violation(fmt.Sprintf("%s had given the resource back, and after that its %s was accepted.",
					op.Holder, op.Kind), last, op)
			}
		}
	}
	return nil
}

// granted finds until when, at the latest, something may have been granted to
// each op's holder that was asked for before op ended.
func granted(s *story, asked []*Op) map[*Op]time.Duration {
	begun := filter(s.grants, func(op *Op) bool { return op.Outcome == Accepted || op.Outcome == Unknown })
	until, found := make(map[string]time.Duration), make(map[*Op]time.Duration, len(asked))
	for _, op := range sorted(asked, byEnded) {
		for len(begun) > 0 && begun[0].Began <= op.Ended {
			holder := begun[0].Holder
			until[holder] = max(until[holder], mayEnd(begun[0]))
			begun = begun[1:]
		}
		found[op] = max(until[op.Holder], until[""]) // nobody knows whose that was
	}
	return found
}
