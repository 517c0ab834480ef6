package token

import (
	"slices"
	"sync"
	"time"
)

const (
	// healingsAllowed of one resource within healingsWithin are those of a
	// server that lost its memory, perhaps twice. Two issuers of one resource
	// would heal past each other for ever.
	healingsAllowed = 5
	healingsWithin  = time.Minute
)

// healings are the recent ones of this process.
var healings = healingLog{at: map[healed][]time.Time{}}

type healed struct {
	issuer   Issuer
	resource string
}

type healingLog struct {
	mu sync.Mutex
	at map[healed][]time.Time
}

// allowed reports whether there were not too many.
func (h *healingLog) allowed(iss Issuer, resource string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for key, times := range h.at {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) > healingsWithin })
		if h.at[key] = times; len(times) == 0 {
			delete(h.at, key)
		}
	}
	return len(h.at[key(iss, resource)]) < healingsAllowed
}

func (h *healingLog) note(iss Issuer, resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := key(iss, resource)
	h.at[k] = append(h.at[k], time.Now())
}

func key(iss Issuer, resource string) healed {
	if !isComparable(iss) {
		iss = nil
	}
	return healed{iss, resource}
}
