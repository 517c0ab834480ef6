package picture

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// arrival is when what op asked for is drawn at the resource: when it ended, or
// at the first step beyond it in the meantime, since it came before that.
func (f *figure) arrival(op *history.Op) time.Duration {
	if op.Outcome != history.Accepted {
		return op.Ended
	}
	for _, s := range f.fence.steps {
		if s.at > op.Began && s.at < op.Ended && s.number > op.Number {
			return s.at
		}
	}
	return op.Ended
}

// labelArrival says at the resource what became of what was asked of it.
func (f *figure) labelArrival(op *history.Op) {
	at := f.scale.index(f.arrival(op))
	switch {
	case looks(f, op):
		f.labels.add(label{row: "looks", at: at, rank: 1, class: "word", dx: 9, y: f.fence.ground() + 24, text: cmp.Or(brief(op.Note, 40), fmt.Sprintf("counted %d", op.Counted))})
	case f.lands(op):
		l := label{row: fmt.Sprint("level ", f.fence.group(op.Number)), at: at, rank: 1, class: "word", dx: 10, y: f.fence.y(op.Number) + 4, text: string(op.Outcome)}
		if op.Outcome == history.Accepted {
			l.rank, l.y = leastRank, l.y-10
			if op.Made > 0 {
				l.text = fmt.Sprintf("v%d", op.Made)
			}
		}
		if f.isBad(op) {
			l.rank, l.class = 0, "word bad"
		} else if f.fence.row < 20 {
			l.until = f.scale.index(f.nextArrival(l.at))
		}
		f.labels.add(l)
	}
}

// nextArrival is when something else arrives at the resource.
func (f *figure) nextArrival(at int) time.Duration {
	next := f.to + 1
	for _, op := range f.shown {
		if arrived := f.arrival(op); f.lands(op) && arrived > f.scale.at[at] {
			next = min(next, arrived)
		}
	}
	return next
}
