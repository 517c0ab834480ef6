package kernel

import (
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/history"
)

// prune forgets the marks below cutoff. The floor is raised over them in the
// same transaction.
func (s *store) prune(cutoff int64) {
	s.floor = max(s.floor, cutoff)
	for r := range s.marks {
		if s.marks[r].Number < cutoff {
			deleted := s.marks[r].Number > 0
			s.marks[r] = guard.Mark{}
			s.pruned(r, deleted)
		}
	}
}

// pruned puts down that the floor is over a resource now, as if somebody had
// claimed it. Where there was no mark the floor explains a refusal, and is no
// evidence against the guard: it is lower than what was admitted only if that had
// been forgotten before, and then somebody stale must still come.
func (s *store) pruned(resource int, deleted bool) {
	entry := s.w.note(history.Claim, "prune", resource)
	entry.Number, entry.Holder = s.floor, "prune"
	if !deleted {
		entry.Outcome = history.Unknown
	}
}
