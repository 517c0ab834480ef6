package register_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token"
)

// memory is a server that keeps records in memory. Its faults are off in the zero value.
type memory struct {
	mu      sync.Mutex
	records map[string][]register.Entry // all writes of a key, oldest first
	beats   map[string]time.Time        // when the Swap was sent that gave a key its last beat
	next    int                         // the number of the last version
	epoch   int                         // rises with each restore
	down    bool                        // every call fails
	changed chan struct{}               // closed at the next write

	ahead     time.Duration // of the server's clock, to that of the processes
	clockless bool          // replies have no clock
	fine      bool          // the clock has a fraction of a second
	values    bool          // versions have the written value too

	trip   func() time.Duration // of a request, and of a reply; nil: none
	faults func() faults        // of one call; nil: none
	wrote  func(who, key string, before, after register.Entry)

	loads, swaps, conflicts, events int
}

// faults are those of one call.
type faults struct {
	stale  int           // Load and Watch see the record as it was so many writes ago
	lost   bool          // the request is executed, and its reply is lost
	late   time.Duration // the request is executed so long after its error
	broken bool          // Watch returns an error
	deaf   bool          // Watch sees no event
}

var (
	errLostReply = fmt.Errorf("memory: %w: the reply was lost", token.ErrUnreachable)
	errDown      = fmt.Errorf("memory: %w: the server is down", token.ErrUnreachable)
	errWatch     = errors.New("memory: the watch is broken")
)

// client is the Store of one process. It is dead if its process is.
type client struct {
	*memory
	who  string
	dead bool
}

func (m *memory) client(who string) *client { return &client{memory: m, who: who} }

func (m *memory) issuer(who string) *register.Issuer {
	return &register.Issuer{Store: m.client(who)}
}

// begin draws the faults of a call, and returns its epoch after the request's trip.
func (c *client) begin() (f faults, epoch int) {
	c.mu.Lock()
	if c.faults != nil {
		f = c.faults()
	}
	epoch = c.epoch
	c.mu.Unlock()
	c.travel()
	return f, epoch
}

func (m *memory) travel() {
	if m.trip != nil {
		m.mu.Lock()
		d := m.trip()
		m.mu.Unlock()
		time.Sleep(d)
	}
}

// end is the reply's trip. It returns the error of the call.
func (c *client) end(ctx context.Context, f faults, epoch int) error {
	c.travel()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead || f.lost:
		return errLostReply
	case c.down || c.epoch != epoch:
		return errDown
	}
	return ctx.Err()
}

// last returns the entry of so many writes ago. The caller has locked mu.
func (m *memory) last(key string, ago int) (e register.Entry) {
	if all := m.records[key]; len(all) > ago {
		e = all[len(all)-1-ago]
	}
	e.Queue = slices.Clone(e.Queue)
	return e
}

// clock is that of a reply.
func (c *client) clock() time.Time {
	now := time.Now().Add(c.memory.ahead)
	switch {
	case c.clockless:
		return time.Time{}
	case c.fine:
		return now
	}
	return now.Truncate(time.Second)
}

func (c *client) Load(ctx context.Context, key string) (register.Entry, error) {
	f, epoch := c.begin()
	c.mu.Lock()
	c.loads++
	e := c.last(key, f.stale)
	e.Clock = c.clock()
	c.mu.Unlock()
	return e, c.end(ctx, f, epoch)
}

func (c *client) Swap(ctx context.Context, key, old string, next register.Record) (register.Entry, bool, error) {
	sent := time.Now()
	f, epoch := c.begin()
	if f.late > 0 {
		time.AfterFunc(f.late, func() { c.swap(key, old, next, sent, epoch) })
		return register.Entry{}, false, errLostReply
	}
	e, swapped := c.swap(key, old, next, sent, epoch)
	return e, swapped, c.end(ctx, f, epoch)
}

func (c *client) swap(key, old string, next register.Record, sent time.Time, epoch int) (register.Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.last(key, 0)
	before.Clock = c.clock()
	if c.dead || c.down || c.epoch != epoch {
		return register.Entry{}, false
	}
	c.swaps++
	if before.Version != old {
		c.conflicts++
		return before, false
	}
	if len(c.records) == 0 {
		c.records, c.beats = map[string][]register.Entry{}, map[string]time.Time{}
	}
	c.next++
	version := strconv.Itoa(c.next)
	if c.values {
		version += fmt.Sprint(" ", next)
	}
	next.Queue = slices.Clone(next.Queue)
	c.records[key] = append(slices.Clip(c.records[key]), register.Entry{Record: next, Version: version})
	after := c.last(key, 0)
	if c.wrote != nil {
		c.wrote(c.who, key, before, after)
	}
	if after.Beat != before.Beat {
		c.beats[key] = sent
	}
	c.notify()
	after.Clock = c.clock()
	return after, true
}

func (m *memory) notify() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

func (c *client) Watch(ctx context.Context, key, seen string) (register.Entry, error) {
	f, epoch := c.begin()
	for {
		c.mu.Lock()
		e := c.last(key, f.stale)
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed, broken := c.changed, f.broken || c.down || c.epoch != epoch
		c.mu.Unlock()
		switch {
		case broken:
			return register.Entry{}, errWatch
		case e.Version != seen && !f.deaf:
			c.mu.Lock()
			c.events++
			c.mu.Unlock()
			return e, c.end(ctx, f, epoch)
		}
		f.stale = 0
		select {
		case <-changed:
		case <-ctx.Done():
			return register.Entry{}, ctx.Err()
		}
	}
}

func (c *client) List(ctx context.Context, prefix string, visit func(string, register.Entry) bool) error {
	c.mu.Lock()
	found := map[string]register.Entry{}
	for key := range c.records {
		if strings.HasPrefix(key, prefix) {
			found[key] = c.last(key, 0)
		}
	}
	c.mu.Unlock()
	for key, e := range found {
		if !visit(key, e) {
			break
		}
	}
	return ctx.Err()
}

// record returns what is written now.
func (m *memory) record(key string) register.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last(key, 0)
}

// backup returns a function that restores the records as they are now, and the counter of
// versions with them: the versions of later writes repeat those of writes that were lost.
func (m *memory) backup() (restore func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	records, beats, next := maps.Clone(m.records), maps.Clone(m.beats), m.next
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.records, m.beats, m.next, m.epoch = maps.Clone(records), maps.Clone(beats), next, m.epoch+1
		m.notify()
	}
}

// forget loses the record of key. Versions do not repeat.
func (m *memory) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.records, key)
	m.notify()
}

// with calls set, which may change the server or read its counters.
func (m *memory) with(set func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set()
}

// kill ends the process of c: nothing that it sends arrives.
func (c *client) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
}
