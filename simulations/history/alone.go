package history

import (
	"fmt"

	"time"
)

// alone judges leases by the time for which each was certainly held.
//
// It is sound: a lease is held at the latest when its grant or renewal Ended,
// and until its Until, which is never later than the issuer's own expiry; at
// most until somebody began to release it, or the issuer began to say that it
// is lost. A renewal that is not answered is taken to shorten nothing.
func alone(s *story) *Violation {
	var last held // until then, and by nobody else so far
	for _, h := range s.held() {
		if last.grant != nil && last.holder() != h.holder() && last.until > h.from {
			return violation(fmt.Sprintf("%s and %s both held the lease, for %v.",
				last.holder(), h.holder(), min(last.until, h.until)-h.from),
				last.grant, last.by, h.grant, h.by)
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
	grant, by   *Op // by: the renewal that says so, if not the grant itself
}

func (h held) holder() string { return h.grant.Holder }
