package simulations_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

var errCut = errors.New("connection cut")

// process is a process in fake time, with a network between it and its issuer.
type process struct {
	name     string
	far      token.Issuer
	recorder *history.Recorder
	latency  time.Duration // the longest, one way
	faults   int           // the percentage of requests, and of replies, that are lost

	work, renewals *randomSource // of the goroutine that works, and of the one that renews
	thaws          atomic.Int64  // in nanoseconds: until then the process is paused
}

func newProcess(name string, far token.Issuer, recorder *history.Recorder, seed uint64) *process {
	salt := uint64(name[0])
	return &process{
		name: name, far: far, recorder: recorder, latency: 20 * time.Millisecond,
		work: newRandomSource(seed, salt), renewals: newRandomSource(seed, salt+1000),
	}
}

// freeze pauses the whole process, including the calling goroutine. The library's timers
// fire meanwhile, but the process sends no requests and receives no replies before it
// thaws.
func (p *process) freeze(d time.Duration) {
	p.thaws.Store(time.Now().Add(d).UnixNano())
	p.thaw()
}

func (p *process) thaw() { time.Sleep(time.Duration(p.thaws.Load() - time.Now().UnixNano())) }

// carry sends one request to the issuer and returns its reply. If the caller leaves, the
// request arrives anyway, and the reply is dropped: the outcome is recorded as Unknown.
func (p *process) carry(ctx context.Context, draw *randomSource, op history.Op, ask func(context.Context, *history.Op) error) (history.Op, error) {
	p.thaw()
	there, back := draw.upTo(p.latency), draw.upTo(p.latency)
	dropsRequest, dropsReply := draw.chance(p.faults), draw.chance(p.faults)
	op.Writer, op.Resource, op.Began = p.name, resource, p.recorder.Now()
	answers := make(chan answer, 1)
	go func() {
		a := answer{op, errCut}
		time.Sleep(there)
		if !dropsRequest {
			err := ask(context.WithoutCancel(ctx), &a.op)
			time.Sleep(back)
			if !dropsReply {
				a.err = err
			}
		}
		p.takeDown(ctx, a)
		answers <- a
	}()
	select {
	case a := <-answers:
		p.thaw()
		return a.op, a.err
	case <-ctx.Done():
		return op, context.Cause(ctx)
	}
}

type answer struct {
	op  history.Op
	err error
}

func (p *process) takeDown(ctx context.Context, a answer) {
	a.op.Ended = p.recorder.Now()
	switch {
	case errors.Is(a.err, token.ErrHeld):
		return // it retries; not recorded
	case ctx.Err() == nil && errors.Is(a.err, token.ErrLost):
		a.op.Outcome, a.op.Until = history.Refused, 0
	case ctx.Err() != nil || a.err != nil:
		a.op.Outcome, a.op.Until = history.Unknown, 0
	default:
		a.op.Outcome = history.Accepted
	}
	p.recorder.Add(a.op)
}

var _ token.Issuer = (*process)(nil)

// Acquire returns a refusal after a millisecond. That is less than the Locker's shortest
// pause, so its pauses repeat.
func (p *process) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	op := history.Op{Kind: history.Acquire, Holder: holder}
	op, err := p.carry(ctx, p.work, op, func(ctx context.Context, op *history.Op) error {
		grant, err := p.far.Acquire(ctx, resource, holder, ttl)
		op.Number, op.Until = grant.Token.Number, op.Began+ttl
		return err
	})
	var held *token.HeldError
	if errors.As(err, &held) {
		held.Remaining = time.Millisecond
	}
	tok := token.Token{Resource: resource, Number: op.Number, Holder: holder}
	return token.Grant{Token: tok, Until: p.recorder.Started().Add(op.Until)}, err
}

// Renew implements [token.Issuer].
func (p *process) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	op := history.Op{Kind: history.Renew, Number: tok.Number, Holder: tok.Holder}
	op, err := p.carry(ctx, p.renewals, op, func(ctx context.Context, op *history.Op) error {
		_, err := p.far.Renew(ctx, tok, ttl)
		if err == nil {
			op.Until = op.Began + ttl
		}
		return err
	})
	return p.recorder.Started().Add(op.Until), err
}

// Release implements [token.Issuer].
func (p *process) Release(ctx context.Context, tok token.Token) error {
	op := history.Op{Kind: history.Release, Number: tok.Number, Holder: tok.Holder}
	_, err := p.carry(ctx, p.work, op, func(ctx context.Context, _ *history.Op) error { return p.far.Release(ctx, tok) })
	return err
}

// randomSource is one goroutine's source of random values, so that draws of other
// goroutines do not change its sequence. Durations have nanosecond resolution, so that no
// two events have the same instant, whose order the seed would not decide.
type randomSource struct {
	mu     sync.Mutex // for goroutines that run one after another
	random *rand.Rand
}

func newRandomSource(seed, salt uint64) *randomSource {
	return &randomSource{random: rand.New(rand.NewPCG(seed, salt))}
}

// upTo returns a random duration of at most limit.
func (d *randomSource) upTo(limit time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return 1 + time.Duration(d.random.Int64N(int64(limit)))
}

// chance returns true with a probability of n percent.
func (d *randomSource) chance(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(100) < n
}

// memoryCounter counts units in memory: it is read, and then written with the computed
// value. All operations on it are recorded.
type memoryCounter struct {
	*history.Recorder
	marks guard.Memory

	mu     sync.Mutex
	units  int
	booked int // acknowledged units
}

func newMemoryCounter() *memoryCounter { return &memoryCounter{Recorder: history.NewRecorder()} }

func (p *memoryCounter) read() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.units
}

// claim returns a Locker's Claim.
func (p *memoryCounter) claim(name string) func(context.Context, token.Token) error {
	return func(ctx context.Context, tok token.Token) error {
		err := p.marks.Admit(ctx, tok)
		p.note(history.Op{Kind: history.Claim, Writer: name, Number: tok.Number, Holder: tok.Holder}, err)
		return err
	}
}

// add compares and writes in one step. It ignores whether ctx has ended, like a writer
// that has not noticed its pause.
func (p *memoryCounter) add(ctx context.Context, name string, seen int) error {
	ctx = context.WithoutCancel(ctx)
	tok, err := token.FromContext(ctx, resource)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err = p.marks.Admit(ctx, tok)
	op := history.Op{Kind: history.Write, Writer: name, Number: tok.Number, Holder: tok.Holder, Seen: int64(seen)}
	if err == nil {
		p.units, op.Made = seen+1, int64(seen+1)
		p.booked++
	}
	p.note(op, err)
	op.Kind, op.Seen, op.Made = history.Unit, 0, 0
	p.note(op, err)
	return err
}

// note records an operation without duration.
func (p *memoryCounter) note(op history.Op, err error) {
	op.Resource, op.Began, op.Ended, op.Outcome = resource, p.Now(), p.Now(), history.Accepted
	switch {
	case errors.Is(err, guard.ErrStale):
		op.Outcome = history.Refused
	case err != nil:
		op.Outcome = history.Failed
	}
	p.Add(op)
}

// lost returns the number of acknowledged units that are missing.
func (p *memoryCounter) lost() int { return p.booked - p.read() }

// judge checks the recorded history by all rules.
func (p *memoryCounter) judge() error {
	p.note(history.Op{Kind: history.Read, Writer: "judge", Counted: p.read()}, nil)
	broken, err := history.Check(p.History())
	for _, v := range broken {
		err = errors.Join(err, errors.New(v.String()))
	}
	return err
}

// transcript returns the history as text, without the random part of the holders, which
// differs between runs.
func (p *memoryCounter) transcript() string {
	var text strings.Builder
	for _, op := range p.History().Ops {
		op.Holder = ""
		fmt.Fprintf(&text, "%+v\n", op)
	}
	return text.String()
}

// crowd is a set of processes that compete for a counter in fake time.
type crowd struct {
	seed   uint64
	names  string // a letter for each process
	rounds int
	issuer func(t *testing.T) (issuer func() token.Issuer)
	twin   bool
}

// inMemory is one issuer for all processes.
func inMemory(*testing.T) func() token.Issuer {
	var far memtoken.Issuer
	return func() token.Issuer { return &far }
}

// fight makes each process wait, acquire, read, perhaps pause, and write.
func (c crowd) fight(t *testing.T) (p *memoryCounter) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p = newMemoryCounter()
		ctx, issuer := t.Context(), c.issuer(t)
		if c.twin {
			ctx = failpoint.Unguarded(ctx)
		}
		var processes sync.WaitGroup
		for _, name := range c.names {
			who := newProcess(string(name), issuer(), p.Recorder, c.seed)
			who.faults = 2
			processes.Go(func() {
				for range c.rounds {
					who.round(ctx, p)
				}
			})
		}
		processes.Wait()
		time.Sleep(time.Minute) // for messages that are still in the network
	})
	return p
}

func (p *process) round(ctx context.Context, counter *memoryCounter) {
	time.Sleep(p.work.upTo(100 * time.Millisecond))
	locker := lock.Locker{Issuer: p, Name: p.name, TTL: 200 * time.Millisecond, Claim: counter.claim(p.name)}
	// The result is in the history.
	_ = locker.Hold(ctx, resource, func(ctx context.Context) error {
		seen := counter.read()
		time.Sleep(p.work.upTo(50 * time.Millisecond))
		if p.work.chance(25) {
			p.freeze(p.work.upTo(time.Second))
		}
		return counter.add(ctx, p.name, seen)
	})
}
