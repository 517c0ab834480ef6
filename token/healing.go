package token

import (
	"reflect"
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

// allow puts down one more, unless there were too many.
func (h *healingLog) allow(iss Issuer, resource string) bool {
	if !reflect.ValueOf(iss).Comparable() {
		iss = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for key, times := range h.at {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) > healingsWithin })
		if h.at[key] = times; len(times) == 0 {
			delete(h.at, key)
		}
	}
	key := healed{iss, resource}
	if len(h.at[key]) >= healingsAllowed {
		return false
	}
	h.at[key] = append(h.at[key], now)
	return true
}
