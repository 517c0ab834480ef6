package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// numbers judges grants: those that were answered, and those whose answer was lost but
// whose number an observer saw.
//
// It is sound: a number is made inside the decision that grants, so between Began and
// Ended. A grant whose answer was lost may have been made after its caller gave up, so
// nothing is known to come after it. A holder that tries again may get its number again.
func numbers(s *story) *Violation {
	known := filter(s.grants, numbered)
	if other, op := shared(filter(known, answeredGrant)); op != nil {
		return violation(fmt.Sprintf("#%d was granted to %s and to %s.", op.Number, other.Holder, op.Holder), other, op).
			expect("One of the two holders should have been given a number of its own.")
	}
	for top, op := range before(s.granted, known, byNumber) {
		if op.Number < top.Number {
			return violation(fmt.Sprintf("#%d was granted after #%d.", op.Number, top.Number), top, op).
				expect("%s should have had at least #%d.", requestOf(op), top.Number+1)
		}
	}
	return nil
}

// numbered reports whether op is a grant, or may be one, with a known number.
func numbered(op *Op) bool {
	return op.Number > 0 && (op.Outcome == Accepted || op.Outcome == Unknown)
}

func answeredGrant(op *Op) bool { return op.Kind == Acquire && op.Outcome == Accepted }

// numberReuse judges the numbers of grants whose answer was lost.
//
// It is sound: an observer saw the number on its way to one holder, so the issuer had
// made it for that holder. The time of that does not matter.
func numberReuse(s *story) *Violation {
	lost := make(map[int64]*Op)
	for _, op := range s.grants {
		if op.Outcome == Unknown && op.Number > 0 && op.Holder != "" && lost[op.Number] == nil {
			lost[op.Number] = op
		}
	}
	for _, op := range s.grants {
		if other := lost[op.Number]; other != nil && numbered(op) && op.Holder != "" && op.Holder != other.Holder {
			return violation(fmt.Sprintf("#%d went to %s, whose answer was lost, and to %s.", op.Number, other.Holder, op.Holder), other, op).
				expect("One of the two holders should have been given a number of its own.")
		}
	}
	return nil
}

// owner judges accepted renewals and releases by holder: an issuer may give a greater
// number to a holder that tries again, and may release by the holder alone.
//
// It is sound: a grant that ended before the request began had taken the resource from
// the caller, if its number is greater than any that the caller can have been granted by
// then. All grants to the caller that had begun count, including those whose answer was
// lost. A resource that was released before the request began has no holder, unless the
// caller was granted it again.
func owner(s *story) *Violation {
	asked := filter(s.leases, func(op *Op) bool { return op.Outcome == Accepted && op.Holder != "" })
	own := ownGrants(s, asked)
	for _, op := range asked {
		if own[op].greatest == nil {
			return violation(fmt.Sprintf("%s was never granted, and its %s was accepted.", op.Holder, op.Kind), op).
				expect("%s should have been refused: its holder had no lease.", requestOf(op))
		}
	}
	for top, op := range before(s.granted, asked, byNumber) {
		if top.Number > numberOf(own[op].greatest) {
			return violation(fmt.Sprintf("#%d was granted to %s, and after that a %s by %s was accepted.",
				top.Number, top.Holder, op.Kind, op.Holder), own[op].greatest, top, op).
				expect("%s should have been refused: #%d had taken the resource.", requestOf(op), top.Number)
		}
	}
	return afterRelease(asked, own)
}

// own is what a holder can have been granted by some time.
type own struct {
	greatest *Op
	until    time.Duration // when the last can have been granted
}

// ownGrants returns for each op what its holder can have been granted by its end.
func ownGrants(s *story, asked []*Op) map[*Op]own {
	begun := filter(s.grants, func(op *Op) bool { return op.Outcome == Accepted || op.Outcome == Unknown })
	byHolder, found := make(map[string]own), make(map[*Op]own, len(asked))
	for _, op := range sorted(asked, byEnded) {
		for ; len(begun) > 0 && begun[0].Began <= op.Ended; begun = begun[1:] {
			grant := begun[0]
			o := byHolder[grant.Holder]
			if o.greatest == nil || numberOf(grant) > numberOf(o.greatest) {
				o.greatest = grant
			}
			o.until = max(o.until, mayEnd(grant))
			byHolder[grant.Holder] = o
		}
		o, unknown := byHolder[op.Holder], byHolder[""] // grants whose holder is unknown
		found[op] = own{cmp.Or(unknown.greatest, o.greatest), max(o.until, unknown.until)}
	}
	return found
}

// numberOf returns the number of grant, or the greatest possible number if it is unknown.
func numberOf(grant *Op) int64 {
	if grant.Number == 0 || grant.Holder == "" {
		return math.MaxInt64
	}
	return grant.Number
}

// afterRelease finds an accepted op of a holder that had released the resource: a renewal
// never acquires, even if the resource is free.
func afterRelease(asked []*Op, granted map[*Op]own) *Violation {
	byHolder := make(map[string][]*Op)
	for _, op := range asked {
		byHolder[op.Holder] = append(byHolder[op.Holder], op)
	}
	for _, op := range asked {
		own := byHolder[op.Holder]
		delete(byHolder, op.Holder)
		released := filter(sorted(own, byEnded), func(op *Op) bool { return op.Kind == Release })
		for last, op := range before(released, own, byBegan) {
			if granted[op].until <= last.Began {
				return violation(fmt.Sprintf("%s had released the resource, and after that its %s was accepted.",
					op.Holder, op.Kind), last, op).
					expect("%s should have been refused: its holder had no lease.", requestOf(op))
			}
		}
	}
	return nil
}

// mutualExclusion judges leases by the time for which each was certainly held.
//
// It is sound: a lease is held from the end of its grant or renewal at the latest, until
// its Until, which is never later than the issuer's own expiry. It is held at most until
// its release began, or until the issuer began to answer that it is lost. An unanswered
// renewal is assumed to shorten nothing.
func mutualExclusion(s *story) *Violation {
	var last held // the lease with the latest end so far
	for _, h := range s.held() {
		if last.grant != nil && last.holder() != h.holder() && last.until > h.from {
			return violation(fmt.Sprintf("%s and %s both held the lease, for %v.",
				last.holder(), h.holder(), min(last.until, h.until)-h.from),
				last.grant, last.by, h.grant, h.by).
				expect("%s should not have come before the lease of %s had ended.", requestOf(h.grant), last.holder())
		}
		if last.grant == nil || h.until > last.until {
			last = h
		}
	}
	return nil
}

// held is a time for which a lease was certainly held.
type held struct {
	from, until time.Duration
	grant, by   *Op // by: the renewal that shows it, if not the grant itself
}

func (h held) holder() string { return h.grant.Holder }

// leaseTimes are the times for which leases were held, by holder: a release needs no
// number.
type leaseTimes struct {
	open      map[string][]held
	releasing map[string]time.Duration // until when a release may still be applied
	over      []held
}

// held returns all times in the order of from.
func (s *story) held() []held {
	t := leaseTimes{open: make(map[string][]held), releasing: make(map[string]time.Duration)}
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

func (t *leaseTimes) add(op *Op) {
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
			t.cut(op.Holder, op.Began) // released by its holder
		}
		t.open[op.Holder] = append(t.open[op.Holder], h)
	case op.Kind == Release:
		t.cut(op.Holder, op.Began)
		t.releasing[op.Holder] = max(until, mayEnd(op))
	case op.Kind == Renew && op.Outcome == Refused:
		t.cut(op.Holder, op.Began)
	}
}

// cut ends all leases of holder at that time at the latest.
func (t *leaseTimes) cut(holder string, at time.Duration) {
	for _, h := range t.open[holder] {
		if h.until = min(h.until, at); h.until > h.from {
			t.over = append(t.over, h)
		}
	}
	delete(t.open, holder)
}

// mayEnd returns when op was applied at the latest. An Unknown op may be applied after
// all callers stopped waiting.
func mayEnd(op *Op) time.Duration {
	if op.Outcome == Unknown {
		return never
	}
	return op.Ended
}
