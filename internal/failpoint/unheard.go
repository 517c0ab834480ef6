package failpoint

import (
	"context"
	"sync"
	"sync/atomic"
)

// Unheard is a write over a traced connection whose context is part of no simulation, so
// no listener receives it.
type Unheard struct {
	Source any // the tracer's key for the database, as in [Sent]
	SQL    string
}

var watchers struct {
	sync.Mutex
	next  int
	calls map[int]func(Unheard)
}

var watched atomic.Int64 // the number of watchers.calls

// WatchUnheard calls f for every write of [NoteUnheard], until stop is called. f must
// return at once.
func WatchUnheard(f func(Unheard)) (stop func()) {
	watchers.Lock()
	defer watchers.Unlock()
	if watchers.calls == nil {
		watchers.calls = map[int]func(Unheard){}
	}
	watchers.next++
	id := watchers.next
	watchers.calls[id] = f
	watched.Store(int64(len(watchers.calls)))
	return func() {
		watchers.Lock()
		defer watchers.Unlock()
		delete(watchers.calls, id)
		watched.Store(int64(len(watchers.calls)))
	}
}

// IsUnheard reports whether ctx is part of no simulation while one is running. A context
// of [Untraced] is part of one.
func IsUnheard(ctx context.Context) bool { return watched.Load() > 0 && sessionOf(ctx) == nil }

// NoteUnheard reports a write under a context for which [IsUnheard] is true to the
// simulations that are running.
func NoteUnheard(write Unheard) {
	watchers.Lock()
	defer watchers.Unlock()
	for _, call := range watchers.calls {
		call(write)
	}
}
