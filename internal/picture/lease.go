package picture

import (
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// never is after everything.
const never = time.Duration(1<<63 - 1)

// end is how a lease ended.
type end string

const (
	open     end = "" // nobody knows, or it lasts longer than the scene
	expired  end = "lease over"
	released end = "released"
	lost     end = "lost"
)

// lease is the time for which a grant was held, as far as the history tells.
type lease struct {
	writer      string
	number      int64
	holder      string
	from, until time.Duration
	end         end
	unheard     bool // the answer to the grant was lost
}

type grant struct {
	number int64
	holder string
}

// leases are in the order of their grants.
func leases(ops []*history.Op) []lease {
	var all []lease
	index := map[grant]int{}
	for _, op := range ops {
		key := grant{op.Number, op.Holder}
		i, known := index[key]
		switch {
		case !known && op.Kind == history.Acquire && op.Number > 0 && op.Outcome != history.Refused && op.Outcome != history.Failed:
			index[key] = len(all)
			all = append(all, newLease(op))
		case known:
			all[i].follow(op)
		}
	}
	return all
}

func newLease(op *history.Op) lease {
	l := lease{writer: op.Writer, number: op.Number, holder: op.Holder, from: op.Ended, until: never}
	l.unheard = op.Outcome != history.Accepted
	l.extend(op)
	return l
}

// follow is told what happened to the lease.
func (l *lease) follow(op *history.Op) {
	switch {
	case (op.Kind == history.Acquire || op.Kind == history.Renew) && op.Outcome == history.Accepted:
		if l.end == open || l.end == expired {
			l.extend(op)
		}
	case (op.Kind == history.Renew || op.Kind == history.Release) && op.Outcome == history.Refused:
		l.cut(op.Ended, lost)
	case op.Kind == history.Release && op.Outcome == history.Accepted:
		l.cut(op.Ended, released)
	case op.Kind == history.Release:
		l.cut(op.Began, released) // it may have been applied at once
	}
}

func (l *lease) extend(op *history.Op) {
	if op.Until > 0 {
		l.until, l.end = op.Until, expired
	}
}

func (l *lease) cut(at time.Duration, how end) {
	if at < l.until {
		l.until, l.end = at, how
	}
}
