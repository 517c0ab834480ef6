package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// player plays schedules one after the other with the same clients. A client that died is
// replaced.
type player struct {
	*testing.T
	*system
	name    string
	clients []*client
	born    int
	played  int
	grants  int
	slowest time.Duration // longest wait that was not given up, in a calm schedule
}

func (p *player) client() *client {
	p.born++
	return p.connect(p.T, fmt.Sprintf("%s.%d", p.name, p.born))
}

// stage is a schedule that is being played.
type stage struct {
	*player
	plan
	witnesses []*witness
	mu        sync.Mutex
	dead      map[int]bool
	slowest   time.Duration
}

// play returns what was wrong, and what took too long.
func (p *player) play(plan plan) (faults, late []string) {
	p.played++
	for len(p.clients) < clients {
		p.clients = append(p.clients, p.client())
	}
	s := &stage{player: p, plan: plan, dead: map[int]bool{}}
	for i := range plan.resources {
		w := &witness{resource: fmt.Sprintf("%s/%d/%d/%d", p.name, p.played, plan.seed, i), free: p.early && plan.kind == broken}
		s.witnesses = append(s.witnesses, w)
	}
	if plan.kind == order {
		s.inOrder()
	} else {
		s.all()
	}
	s.drain()
	if plan.kind == calm {
		p.slowest = max(p.slowest, s.slowest)
	}
	for _, w := range s.witnesses {
		faults, late = append(faults, w.faults...), append(late, w.late...)
		p.grants += w.grants
	}
	for i := range s.dead {
		p.clients[i].close()
		p.clients[i] = p.client()
	}
	return faults, late
}

func (s *stage) all() {
	var group sync.WaitGroup
	for i, steps := range s.actors {
		c, n := s.clients[i%clients], i
		group.Go(func() {
			for k, step := range steps {
				time.Sleep(step.after)
				holder := fmt.Sprintf("%d.%d", n, k)
				if s.kind == sets {
					s.set(c, holder, step)
				} else {
					s.turn(c, i%clients, holder, step)
				}
			}
		})
	}
	for _, f := range s.faults {
		group.Go(func() { s.strike(f) })
	}
	group.Wait()
}

// strike begins a fault, and ends it.
func (s *stage) strike(f fault) {
	c := s.clients[f.client]
	time.Sleep(f.after)
	if f.dropsNotifications {
		if err := s.dropNotifications(c.name); err != nil {
			s.witnesses[0].note("dropping notifications: %v", err)
		}
		return
	}
	if c.proxy == nil {
		return
	}
	both := netfault.ToServer | netfault.ToClient
	s.mu.Lock()
	gone := s.dead[f.client]
	s.dead[f.client] = gone || f.die
	s.mu.Unlock()
	switch {
	case gone:
		return
	case f.die, f.cut:
		c.proxy.Cut(both)
	default:
		c.proxy.Blackhole(f.way)
	}
	if f.die {
		return
	}
	time.Sleep(f.lasts)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dead[f.client] {
		c.proxy.Heal(both)
	}
}

func (s *stage) isDead(client int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead[client]
}

// turn plays a turn of an actor: it waits, holds and releases.
func (s *stage) turn(c *client, number int, holder string, step step) {
	if s.isDead(number) {
		return
	}
	w := s.witnesses[step.resource]
	ctx, cancel := context.WithTimeout(context.Background(), 2*hang)
	defer cancel()
	if step.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, step.timeout)
		defer cancel()
	}
	began, before := time.Now(), w.highest()
	ask := c.Wait
	if step.try {
		ask = c.Acquire
	}
	done := func() {}
	if !step.try {
		done = w.waits(cancel)
	}
	grant, err := ask(ctx, w.resource, holder, s.ttl)
	done()
	s.checkWait(ctx, w, step, holder, time.Since(began), err)
	if err != nil || !w.enter(grant, before) {
		if err == nil {
			s.giveBack(c, w, grant.Token)
		}
		return
	}
	time.Sleep(step.hold / 2)
	if step.renew {
		if until, err := c.Renew(context.Background(), grant.Token, s.ttl); err == nil {
			w.extend(grant.Token, until)
		} else if s.kind == calm {
			w.note("%s is not renewed: %v", holder, err)
		}
	}
	if step.again {
		before := w.highest()
		again, cancel := context.WithTimeout(context.Background(), hang)
		more, err := c.Acquire(again, w.resource, holder, s.ttl)
		cancel()
		switch {
		case err == nil && more.Token.Number < grant.Token.Number:
			w.note("%s was granted %d, and then %d", holder, grant.Token.Number, more.Token.Number)
		case err == nil && (s.kind == calm || more.Token == grant.Token):
			w.extend(more.Token, more.Until)
		case err == nil:
			w.regrant(more, before)
		case s.kind == calm:
			w.note("%s has it, and is not granted it again: %v", holder, err)
		}
	}
	time.Sleep(step.hold / 2)
	if step.abandon {
		return
	}
	if step.startle {
		w.startle()
	}
	s.giveBack(c, w, grant.Token)
}

// giveBack releases until there is a reply: without one, the lease would end only with
// its TTL.
func (s *stage) giveBack(c *client, w *witness, tok token.Token) {
	w.leave(tok.Holder)
	for tries := 0; ; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		err := c.Release(ctx, tok)
		cancel()
		switch {
		case err == nil, s.kind == broken:
			return
		case errors.Is(err, token.ErrLost) && tries > 0:
			return
		case errors.Is(err, token.ErrLost) || tries > 2:
			w.note("%s had it, and could not release it: %v", tok.Holder, err)
			return
		}
	}
}

// checkWait checks how a wait ended.
func (s *stage) checkWait(ctx context.Context, w *witness, step step, holder string, took time.Duration, err error) {
	var held *token.HeldError
	switch {
	case took > hang:
		w.slow("%s waited for %v: %v", holder, took, err)
	case err == nil, ctx.Err() != nil, s.kind == broken:
	case step.try && errors.As(err, &held):
	default:
		w.note("%s: %v", holder, err)
	}
	if err == nil && !step.try && s.kind == calm {
		s.mu.Lock()
		s.slowest = max(s.slowest, took)
		s.mu.Unlock()
	}
}

// set plays a turn of a Locker that holds all resources, or any of them, or one and then
// all.
func (s *stage) set(c *client, name string, step step) {
	locker := lock.Locker{Issuer: c.queueIssuer, Name: name, TTL: long, WaitTimeout: step.timeout, DangerouslyWithoutClaim: true}
	ctx, cancel := context.WithTimeout(context.Background(), 2*hang)
	defer cancel()
	var names []string
	for _, w := range s.witnesses {
		names = append(names, w.resource)
	}
	began := time.Now()
	in := func(ctx context.Context) error {
		return s.inside(ctx, step, names)
	}
	var err error
	switch {
	case step.renew:
		err = locker.HoldAny(ctx, names, func(ctx context.Context, name string) error {
			return s.inside(ctx, step, []string{name})
		})
	case step.again:
		err = locker.HoldAll(ctx, names[:1], func(ctx context.Context) error { return locker.HoldAll(ctx, names, in) })
	default:
		err = locker.HoldAll(ctx, names, in)
	}
	switch {
	case time.Since(began) > hang:
		s.witnesses[0].slow("%s took %v: %v", name, time.Since(began), err)
	case err != nil && (step.timeout == 0 || !errors.Is(err, lock.ErrWaitTimeout)):
		s.witnesses[0].note("%s: %v", name, err)
	}
}

// inside holds each name by itself.
func (s *stage) inside(ctx context.Context, step step, names []string) error {
	for _, name := range names {
		w := s.witnesses[slices.IndexFunc(s.witnesses, func(w *witness) bool { return w.resource == name })]
		tok, err := token.FromContext(ctx, name)
		if err != nil {
			return err
		}
		w.enter(token.Grant{Token: tok, Until: time.Now().Add(time.Hour)}, 0) // its witness is not free
		defer w.leave(tok.Holder)
		if step.startle {
			defer w.startle()
		}
	}
	time.Sleep(step.hold)
	return context.Cause(ctx)
}

// drain ends all faults, and checks that the resources are free and their queues empty.
func (s *stage) drain() {
	both := netfault.ToServer | netfault.ToClient
	for i, c := range s.clients {
		if c.proxy != nil && !s.dead[i] {
			c.proxy.Heal(both)
		}
	}
	last := slices.IndexFunc(s.clients, func(c *client) bool { return !s.dead[slices.Index(s.clients, c)] })
	if last < 0 {
		s.clients = append(s.clients, s.player.client())
		last = len(s.clients) - 1
	}
	c := s.clients[last]
	for _, w := range s.witnesses {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		before := w.highest()
		holder := fmt.Sprintf("last.%d", rand.Int32())
		grant, err := c.Wait(ctx, w.resource, holder, long)
		for err != nil && ctx.Err() == nil { // its connections may still be broken
			grant, err = c.Wait(ctx, w.resource, holder, long)
		}
		if err != nil {
			w.slow("it was not released: %v", err)
			cancel()
			continue
		}
		w.enter(grant, before)
		w.leave(holder)
		if err := c.Release(ctx, grant.Token); err != nil {
			w.note("the last holder could not release it: %v", err)
		}
		cancel()
		var left []string
		if err := eventually(func() (_ bool, err error) { left, err = s.left(w.resource); return len(left) == 0, err }); err != nil {
			w.note("left behind: %v (%v)", left, err)
		}
	}
	s.player.clients = s.player.clients[:min(len(s.player.clients), max(clients, len(s.dead)+1))]
}

// regrant records a grant to a holder that acquired again. If it still has the resource
// by the issuer's clock, that is a renewal, otherwise a grant.
func (w *witness) regrant(g token.Grant, before int64) {
	w.mu.Lock()
	same := w.holder == g.Token.Holder
	w.mu.Unlock()
	if same {
		w.extend(g.Token, g.Until)
		return
	}
	w.enter(g, before)
}

// inOrder makes waiters join the queue one by one. Some of them give up, and the others
// must be granted the resource in the order in which they joined.
func (s *stage) inOrder() {
	w := s.witnesses[0]
	first := s.clients[0]
	ctx, cancel := context.WithTimeout(context.Background(), 2*hang)
	defer cancel()
	before := w.highest()
	grant, err := first.Acquire(ctx, w.resource, "first", long)
	if err != nil {
		w.note("first: %v", err)
		return
	}
	w.enter(grant, before)
	var group sync.WaitGroup
	var mu sync.Mutex
	var out []int
	var cancels []context.CancelFunc
	entered := 0
	for i, steps := range s.actors {
		c := s.clients[i%clients]
		if s.one && i >= clients {
			break
		}
		waiting, cancel := context.WithCancel(ctx)
		end := make(chan struct{})
		cancels = append(cancels, cancel)
		group.Go(func() {
			defer close(end)
			began, before := time.Now(), w.highest()
			grant, err := c.Wait(waiting, w.resource, fmt.Sprint("waiter ", i), long)
			switch {
			case time.Since(began) > hang:
				w.slow("waiter %d waited for %v: %v", i, time.Since(began), err)
			case waiting.Err() == nil && err != nil:
				w.note("waiter %d: %v", i, err)
			}
			if err != nil {
				return
			}
			w.enter(grant, before)
			mu.Lock()
			out = append(out, i)
			mu.Unlock()
			s.giveBack(c, w, grant.Token)
		})
		entered++
		if err := eventually(func() (bool, error) { n, err := s.queued(w.resource); return n == entered || n < 0, err }); err != nil {
			w.note("waiter %d does not join the queue: %v", i, err)
		}
		if steps[0].try { // a newcomer
			_, err := c.Acquire(ctx, w.resource, fmt.Sprint("newcomer ", i), long)
			if err == nil {
				w.note("a newcomer overtook the queue")
			}
		}
		if steps[0].timeout > 0 && steps[0].hold > time.Millisecond { // gives up before the hand-off
			cancel()
			<-end
			entered--
		}
	}
	for i := range cancels {
		if s.actors[i][0].timeout > 0 { // gives up at the moment of a hand-off
			go func() { time.Sleep(s.actors[i][0].after); cancels[i]() }()
		}
	}
	s.giveBack(first, w, grant.Token)
	group.Wait()
	for _, cancel := range cancels {
		cancel()
	}
	if n, _ := s.queued(w.resource); n >= 0 && !slices.IsSorted(out) { // otherwise it is unknown which waiter came first
		// A waiter whose subscription breaks, as on a machine that stops for long, misses its turn.
		w.slow("they were served in the order %v", out)
	}
}
