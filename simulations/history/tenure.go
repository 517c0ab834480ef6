package history

import (
	"cmp"
	"slices"
	"time"
)

// tenures are the times for which leases were held, by holder: a release needs
// no number.
type tenures struct {
	open      map[string][]held
	releasing map[string]time.Duration // until when a release may still be applied
	over      []held
}

// held returns all of them in the order of from.
func (s *story) held() []held {
	t := tenures{open: make(map[string][]held), releasing: make(map[string]time.Duration)}
	for _, op := range s.ops {
		if (op.Kind == Acquire || op.Kind == Renew || op.Kind == Release) && op.Holder != "" {
			t.add(op)
		}
	}
	for holder := range t.open {
		t.cut(holder, never)
	}
	slices.SortFunc(t.over, func(a, b held) int {
		return cmp.Or(cmp.Compare(a.from, b.from), byNumber(a.grant, b.grant), cmp.Compare(a.until, b.until))
	})
	return t.over
}

func (t *tenures) add(op *Op) {
	before := t.open[op.Holder]
	until, releasing := t.releasing[op.Holder]
	said := op.Outcome == Accepted && op.Until > 0 && !(releasing && op.Began <= until)
	switch {
	case said && (op.Kind == Acquire || len(before) > 0):
		h := held{op.Ended, op.Until, op, nil}
		if op.Kind == Renew {
			h.grant, h.by = before[0].grant, op
		}
		if len(before) > 0 && op.Until < before[len(before)-1].until {
			t.cut(op.Holder, op.Began) // by its holder's own wish
		}
		t.open[op.Holder] = append(t.open[op.Holder], h)
	case op.Kind == Release:
		t.cut(op.Holder, op.Began)
		t.releasing[op.Holder] = max(until, mayEnd(op))
	case op.Kind == Renew && op.Outcome == Refused:
		t.cut(op.Holder, op.Began)
	}
}

// cut ends all that holder has, at the latest then.
func (t *tenures) cut(holder string, at time.Duration) {
	for _, h := range t.open[holder] {
		if h.until = min(h.until, at); h.until > h.from {
			t.over = append(t.over, h)
		}
	}
	delete(t.open, holder)
}

// mayEnd returns when op was applied at the latest: what is Unknown may be
// after everybody stopped waiting.
func mayEnd(op *Op) time.Duration {
	if op.Outcome == Unknown {
		return never
	}
	return op.Ended
}
