package register

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sights = 8192            // records that a process remembers
	fresh  = time.Minute     // how long a reading of the server's clock is used
	skew   = 2 * time.Second // by which clocks of servers may differ, resolution included
)

// process is what an Issuer knows without asking the store.
type process struct {
	trip    atomic.Int64 // how long the store took to reply, of late, in ns
	mu      sync.Mutex
	id      string            // in records; it does not change once an entry was taken
	sights  map[string]*sight // if there are too many, one is forgotten
	watches map[string]*watch
	reading reading
}

// sight is what the process has last seen of one record.
type sight struct {
	holder string
	beat   int64
	ends   time.Time // the lease of this beat, on the monotonic clock
	kept   *Entry    // as it was last written here or watched; nil if it must be loaded
}

// of returns the sight of resource. The caller has locked mu.
func (p *process) of(resource string) *sight {
	if p.id == "" {
		p.id, p.sights, p.watches = rand.Text()[:8], map[string]*sight{}, map[string]*watch{}
	}
	s := p.sights[resource]
	if s == nil {
		for other := range p.sights {
			if len(p.sights) < sights {
				break
			}
			delete(p.sights, other)
		}
		s = new(sight)
		p.sights[resource] = s
	}
	return s
}

// left returns how long the lease of e lasts: its ttl from when this process first saw its
// beat. If it has not seen the lease before, as it has just started, the server's clock
// tells how old the beat is. Otherwise a step of that clock ends no lease.
func (p *process) left(resource string, e Entry) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, now := p.of(resource), time.Now()
	if s.ends.IsZero() || s.holder != e.Holder || s.beat != e.Beat {
		age := time.Duration(0)
		if p.reading.known() && e.At > 0 && !s.ends.After(now) {
			age = max(0, p.reading.earliest(now).Sub(time.UnixMilli(e.At))-skew)
		}
		s.holder, s.beat, s.ends = e.Holder, e.Beat, now.Add(time.Duration(e.TTL)*time.Millisecond-age)
	}
	return s.ends.Sub(now)
}

// take returns the entry of resource that was kept, once.
func (p *process) take(resource string) (e Entry, kept bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of(resource)
	if s.kept == nil || p.reading.known() && p.reading.isOld() { // the reply to Load has the clock
		return e, false
	}
	e, s.kept = *s.kept, nil
	return e, true
}

func (p *process) keep(resource string, e Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(resource).kept = &e
}

// reading is what the server's clock showed between sent and heard.
type reading struct{ clock, sent, heard time.Time }

func (r reading) known() bool { return !r.clock.IsZero() }

// earliest and latest are the bounds of the server's clock at now.
func (r reading) earliest(now time.Time) time.Time { return r.clock.Add(now.Sub(r.heard)) }
func (r reading) latest(now time.Time) time.Time   { return r.clock.Add(now.Sub(r.sent)) }

// isOld is also judged by the wall clock: the monotonic clock of a suspended machine stops.
func (r reading) isOld() bool {
	return max(time.Since(r.heard), time.Since(r.heard.Round(0)).Abs()) > fresh
}

func (p *process) needsClock() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.reading.known() || p.reading.isOld()
}

// hear takes the clock of a reply, zero if it has none, and the time that it took.
func (p *process) hear(sent, clock time.Time) {
	now := time.Now()
	p.trip.Store((3*p.trip.Load() + int64(now.Sub(sent))) / 4)
	if clock.IsZero() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading = reading{clock, sent, now}
}

func (p *process) roundTrip() time.Duration { return time.Duration(p.trip.Load()) }

// now returns the time of numbers, and the server's clock or later, zero if it is not known.
// Numbers count the local clock, since most servers' have no fraction of a second: two
// grants within it must differ, even if the record was lost in between. A local clock that
// is off must raise no mark: then they count the server's second.
func (p *process) now() (numbers, server time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, r := time.Now(), p.reading
	if !r.known() {
		return now, server
	}
	earliest, latest := r.earliest(now), r.latest(now)
	if now.Before(earliest.Add(-skew)) || now.After(latest.Add(skew)) {
		return earliest.Add(mathrand.N(time.Second)), latest
	}
	return now, latest
}

// watch is a Watch of the Store that the waiters of this process share.
type watch struct {
	end     func() // so that the next caller has another. It needs mu
	waiters int
	done    chan struct{}
	e       Entry // after done
	err     error // after done
}

// watch calls see, or waits with the callers that have the same id.
func (p *process) watch(ctx context.Context, id string, see func(context.Context) (Entry, error)) (Entry, error) {
	p.mu.Lock()
	w := p.watches[id]
	if w == nil {
		shared, stop := context.WithCancel(context.WithoutCancel(ctx))
		w = &watch{done: make(chan struct{}), end: sync.OnceFunc(func() { stop(); delete(p.watches, id) })}
		p.watches[id] = w
		go func() {
			w.e, w.err = see(shared)
			p.mu.Lock()
			w.end()
			p.mu.Unlock()
			close(w.done)
		}()
	}
	w.waiters++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.waiters--; w.waiters == 0 {
			w.end()
		}
	}()
	select {
	case <-w.done:
		return w.e, w.err
	case <-ctx.Done():
		return Entry{}, context.Cause(ctx)
	}
}
