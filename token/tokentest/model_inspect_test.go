package tokentest_test

import (
	"context"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	inspectIsLate      flaw = "Inspect returns the last holder of what is free"
	inspectTakes       flaw = "Inspect acquires what is free"
	inspectEndsLeases  flaw = "Inspect ends the lease"
	inspectIsBehind    flaw = "Inspect returns the number before the last"
	inspectIsAhead     flaw = "Inspect returns a number that may be granted later"
	inspectDropsQueue  flaw = "Inspect drops the waiters"
	inspectReverses    flaw = "Inspect lists the last waiter first"
	locksArePatterns   flaw = "Locks takes the prefix for a pattern"
	locksIgnorePrefix  flaw = "Locks ignores the prefix"
	locksIncludeFree   flaw = "Locks returns what is free"
	locksEndAtTheFirst flaw = "Locks returns one lock"
)

const (
	heldRule   = "Inspect returns the holder, the rest of its ttl, and a number below the next"
	freeRule   = "a resource that was never granted, was released or has expired has no holder"
	prefixRule = "Locks returns what is held and begins with the prefix, whatever the names contain"
	orderRule  = "Inspect lists waiters in the order of their calls, and drops none"
)

var inspectMutants = map[flaw][]string{
	inspectIsLate:      {freeRule},
	inspectTakes:       {freeRule},
	inspectEndsLeases:  {heldRule},
	inspectIsBehind:    {heldRule},
	inspectIsAhead:     {heldRule},
	inspectDropsQueue:  {orderRule},
	inspectReverses:    {orderRule},
	locksArePatterns:   {prefixRule},
	locksIgnorePrefix:  {prefixRule},
	locksIncludeFree:   {prefixRule},
	locksEndAtTheFirst: {prefixRule},
	contextIgnored:     {"an Inspect under a cancelled context returns soon"},
}

func (m *model) Inspect(ctx context.Context, resource string) (token.State, error) {
	if err := context.Cause(ctx); err != nil && !m.has(contextIgnored) {
		return token.State{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l, s := m.at(resource), token.State{Resource: resource}
	if left := time.Until(l.until); left <= 0 && m.has(inspectTakes) {
		l.number, l.holder, l.until = l.number+1, "inspector", time.Now().Add(time.Minute)
	}
	s.Number = l.number
	if left := time.Until(l.until); left > 0 || m.has(inspectIsLate) {
		s.Holder, s.Remaining = l.holder, max(left, 0)
	}
	for _, at := range l.queue {
		s.Waiters = append(s.Waiters, at.holder)
	}
	switch {
	case m.has(inspectIsBehind):
		s.Number--
	case m.has(inspectIsAhead):
		s.Number += int64(time.Hour / time.Microsecond)
	case m.has(inspectEndsLeases):
		l.until = time.Time{}
	case m.has(inspectDropsQueue):
		l.queue = nil
	case m.has(inspectReverses):
		slices.Reverse(s.Waiters)
	}
	return s, nil
}

func (m *model) Locks(ctx context.Context, prefix string) iter.Seq2[token.State, error] {
	return func(yield func(token.State, error) bool) {
		m.mu.Lock()
		names := slices.Collect(maps.Keys(m.leases))
		m.mu.Unlock()
		for _, name := range names {
			matches := strings.HasPrefix(name, prefix) || m.has(locksIgnorePrefix)
			if m.has(locksArePatterns) {
				matches, _ = path.Match(strings.ReplaceAll(prefix, "/", ":")+"*", strings.ReplaceAll(name, "/", ":"))
			}
			s, err := m.Inspect(ctx, name)
			listed := s.Holder != "" || len(s.Waiters) > 0 || m.has(locksIncludeFree)
			if matches && listed && (!yield(s, err) || m.has(locksEndAtTheFirst)) {
				return
			}
		}
	}
}
