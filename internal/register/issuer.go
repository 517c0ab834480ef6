// Package register is an issuer over any store with a compare-and-swap: see [Store]. The
// state of a lock is one [Record], which each process reads, changes by the decisions of
// package lockstate, and writes if no other process has written it in between.
//
// No server expires a lease. Each process judges by its own monotonic clock, from when it
// first saw the record's last beat, or by the server's clock if that is earlier.
package register

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] over Store. It must not be copied. It is safe for concurrent
// use. All callers of a process should share one: its waiters share their watches.
type Issuer struct {
	Store Store
	// LoadFirst makes each decision load the record before it writes: one more read for
	// each renewal. It is for a Store whose versions may repeat, see [Store]. False means
	// that a decision starts from the entry that this process last wrote or watched.
	LoadFirst bool

	process process
}

// Interface is what an Issuer implements, and the issuer of a driver, which embeds it.
type Interface interface {
	token.Issuer
	token.QueueIssuer
	token.BatchRenewer
	token.Recoverer
	token.Inspector
}

var _ Interface = (*Issuer)(nil)

const (
	places  = 64                    // in a queue. Later waiters poll
	confirm = time.Second           // the least time in which a waiter must confirm, or its ttl
	turn    = 50 * time.Millisecond // by which a waiter acts later than the one before it
	atOnce  = 16                    // renewals of a batch under way
	// patience bounds how long a change of the queue gives way. A server that is overloaded
	// replies after seconds, and of 256 round trips each would be minutes.
	patience = 10 * time.Second
)

// Acquire implements [token.Issuer].
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (g token.Grant, err error) {
	if _, err := token.New(resource, 1, holder); err != nil {
		return g, err
	}
	_, err = i.decide(ctx, resource, func(d *draft) error { return d.acquire(&g, holder, ttl) })
	if err != nil {
		return token.Grant{}, err
	}
	return g, nil
}

// acquire sets g to what it was granted. Until counts from now, when the Swap is sent.
func (d *draft) acquire(g *token.Grant, holder string, ttl time.Duration) (err error) {
	*g, err = d.Acquire(holder, ttl, d.now)
	g.Until = time.Now().Add(ttl)
	d.beats = err == nil
	return err
}

// Renew implements [token.Issuer].
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (until time.Time, err error) {
	_, err = i.decide(ctx, tok.Resource, func(d *draft) error {
		until = time.Now().Add(ttl)
		_, err := d.Renew(tok.Holder, ttl, d.now)
		d.beats = err == nil
		return err
	})
	return until, err
}

// RenewAll implements [token.BatchRenewer].
func (i *Issuer) RenewAll(ctx context.Context, batch []token.Renewal) {
	var all errgroup.Group
	all.SetLimit(atOnce)
	for n := range batch {
		all.Go(func() error {
			r := &batch[n]
			r.Until, r.Err = i.Renew(ctx, r.Token, r.TTL)
			return nil
		})
	}
	_ = all.Wait()
}

// Release implements [token.Issuer].
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	_, err := i.decide(ctx, tok.Resource, func(d *draft) error { return d.Release(tok.Holder, d.now) })
	return err
}

// Recover implements [token.Recoverer].
func (i *Issuer) Recover(ctx context.Context, resource string, number int64) error {
	_, err := i.decide(ctx, resource, func(d *draft) error { return d.Recover(number, d.now) })
	return err
}

// Wait implements [token.QueueIssuer]. A decision of another process hands the lock to the
// waiter for a short time. The waiter confirms with a grant of its own, for its whole ttl.
func (i *Issuer) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (g token.Grant, err error) {
	if _, err := token.New(resource, 1, holder); err != nil {
		return g, err
	}
	if err := context.Cause(ctx); err != nil {
		return g, err
	}
	for {
		place := 0
		e, err := i.decide(ctx, resource, func(d *draft) error {
			err := d.acquire(&g, holder, ttl)
			if errors.Is(err, token.ErrHeld) {
				if place = d.place(holder); place < 0 {
					if place = len(d.Queue); place < places {
						d.wait(Waiter{holder, i.process.id, milliseconds(min(ttl, confirm+8*i.process.roundTrip()))})
					}
				}
			}
			return err
		})
		if err == nil {
			return g, nil
		}
		if errors.Is(err, token.ErrHeld) {
			i.watch(ctx, resource, holder, e, place)
			if ctx.Err() == nil {
				continue
			}
			err = errors.Join(context.Cause(ctx), err)
		}
		i.leave(ctx, resource, holder)
		return token.Grant{}, err
	}
}

// leave takes holder out of the queue, and hands on the lock if holder was handed it.
func (i *Issuer) leave(ctx context.Context, resource, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = i.decide(ctx, resource, func(d *draft) error {
		d.leave(holder)
		return nil
	})
}

// watch returns when the waiter should decide again: it has lost its place, since it was
// handed the lock or dropped; the lock is free and it is the first; or the lease has ended,
// and the waiters before it have had their turns.
func (i *Issuer) watch(ctx context.Context, resource, holder string, e Entry, place int) {
	queued, pause := place < places, 10*time.Millisecond
	for ctx.Err() == nil {
		left := i.process.left(resource, e) + time.Duration(place)*(turn+2*i.process.roundTrip())
		if left <= 0 {
			return
		}
		until, cancel := context.WithTimeout(ctx, left)
		next, err := i.process.watch(until, resource+"\x00"+e.Version, func(ctx context.Context) (Entry, error) {
			return i.Store.Watch(ctx, resource, e.Version)
		})
		if until.Err() == nil && (err != nil || next.Version == e.Version) { // the watch is broken
			sleep(until, pause)
			pause = min(2*pause, time.Second)
			next, err = i.load(until, resource)
		}
		cancel()
		if err != nil {
			continue
		}
		i.process.keep(resource, next)
		e, place = next, slices.IndexFunc(next.Queue, func(w Waiter) bool { return w.Holder == holder })
		switch {
		case place < 0 && (queued || len(e.Queue) < places), e.Holder == "" && place == 0:
			return
		case place < 0:
			place = len(e.Queue)
		}
	}
}

// decide makes the decision on the record and writes what it has changed, until no other
// process has written in between.
func (i *Issuer) decide(ctx context.Context, resource string, decision func(d *draft) error) (e Entry, err error) {
	if err := context.Cause(ctx); err != nil {
		return e, err
	}
	e, kept := i.process.take(resource)
	if !kept || i.LoadFirst {
		kept = false
		e, err = i.load(ctx, resource)
	}
	for try := 1; err == nil; try++ {
		now, at := i.process.now()
		d := newDraft(resource, e, now, i.process.left(resource, e))
		verdict := decision(d)
		next, changed := d.next(at)
		if !changed {
			// A refusal is a hint and needs no proof. Success and ErrLost are final, and the
			// entry may be stale: a Swap that changes nothing but the number proves them. It
			// also makes an earlier Swap fail that is still on its way, as of an Acquire that
			// its caller takes back by a Release.
			if verdict != nil && !errors.Is(verdict, token.ErrLost) {
				if !kept {
					return e, verdict
				}
				kept = false
				e, err = i.load(ctx, resource)
				continue
			}
			next.Number++
		}
		kept = false
		before, sent := e.Beat, time.Now()
		var written Entry
		var swapped bool
		if written, swapped, err = i.Store.Swap(ctx, resource, e.Version, next); err != nil {
			break
		}
		i.process.hear(sent, written.Clock)
		if swapped {
			i.process.left(resource, written)
			i.process.keep(resource, written)
			return written, verdict
		}
		e = written
		// A change of the queue gives way to the holder, whose renewal must not lose again.
		if next.Beat == before {
			sleep(ctx, rand.N(min(max(i.process.roundTrip(), time.Millisecond)<<min(2*try, 6), patience)))
			e, err = i.load(ctx, resource)
		}
	}
	return e, failure(ctx, err)
}

// load asks the store, and for its clock if the last reading is old and replies have none.
func (i *Issuer) load(ctx context.Context, resource string) (Entry, error) {
	if c, ok := i.Store.(Clocker); ok && i.process.needsClock() {
		sent := time.Now()
		clock, err := c.Clock(ctx)
		if err != nil {
			return Entry{}, err
		}
		i.process.hear(sent, clock)
	}
	sent := time.Now()
	e, err := i.Store.Load(ctx, resource)
	if err == nil {
		i.process.hear(sent, e.Clock)
	}
	return e, err
}

// Inspect implements [token.Inspector].
func (i *Issuer) Inspect(ctx context.Context, resource string) (token.State, error) {
	e, err := i.load(ctx, resource)
	if err != nil {
		return token.State{Resource: resource}, failure(ctx, err)
	}
	return i.state(resource, e), nil
}

// Locks implements [token.Inspector].
func (i *Issuer) Locks(ctx context.Context, prefix string) iter.Seq2[token.State, error] {
	return func(yield func(token.State, error) bool) {
		more := true
		err := i.Store.List(ctx, prefix, func(resource string, e Entry) bool {
			if s := i.state(resource, e); s.Holder != "" || len(s.Waiters) > 0 {
				more = yield(s, nil)
			}
			return more
		})
		if err != nil && more {
			yield(token.State{}, failure(ctx, err))
		}
	}
}

func (i *Issuer) state(resource string, e Entry) token.State {
	s := token.State{Resource: resource, Number: e.Number}
	if left := i.process.left(resource, e); left > 0 && e.Holder != "" {
		s.Holder, s.Remaining = e.Holder, left
	}
	for _, w := range e.Queue {
		s.Waiters = append(s.Waiters, w.Holder)
	}
	return s
}

// failure is the error of a Store, or the context's cause if that has ended the call.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
