package simulations_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/token"
)

var errCut = errors.New("connection cut")

// process is a process in fake time, with a network between it and two servers, the issuer
// and the store. Its methods are those of the two clients.
type process struct {
	*world
	name           string
	far            atomic.Pointer[link]
	work, renewals *randomSource // of the goroutine that works, and of the one that renews
	thaws          atomic.Int64  // in nanoseconds: until then the process is paused
	dead           atomic.Bool
	mute, deaf     span         // no request leaves the process, or no reply reaches it
	until          atomic.Int64 // the end of its lease, as far as it was told
}

// link is the issuer that a process reaches, until ctx ends.
type link struct {
	token.Issuer
	ctx context.Context
}

// freeze pauses the process. The library's timers fire meanwhile, but the process sends no
// requests and receives no replies before it thaws.
func (p *process) freeze(d time.Duration) {
	p.thaws.Store(max(p.thaws.Load(), time.Now().Add(d).UnixNano()))
}

// thaw returns when the process is not paused.
func (p *process) thaw() {
	for {
		left := time.Duration(p.thaws.Load() - time.Now().UnixNano())
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

// fate is what happens to a request and its reply.
type fate struct {
	there, back              time.Duration
	dropsRequest, dropsReply bool
	again                    time.Duration // after which the request arrives once more; 0 if it does not
}

// fate draws the same values whatever the faults, so that a run with fewer faults differs
// only by those.
func (p *process) fate(draw *randomSource) fate {
	f := fate{there: draw.upTo(latency), back: draw.upTo(latency)}
	lost, late, twice, extra := draw.chance(8), draw.chance(20), draw.chance(15), draw.upTo(leaseTTL)
	f.dropsRequest, f.dropsReply = p.mute.has(p.Now()), p.deaf.has(p.Now())
	if p.Now() > troubled {
		return f
	}
	if lost && p.faults.has(loses) {
		f.dropsRequest, f.dropsReply = extra%2 == 0, extra%2 != 0
	}
	if late && p.faults.has(delays) {
		f.there += extra
	}
	if twice && p.faults.has(duplicates) {
		f.again = extra
	}
	return f
}

// message is a request, and its reply. A second copy of the request is another message.
type message struct {
	history.Op      // Kind is empty if it is not recorded
	twice      bool // another copy of the request arrives later
	seen       row
	response   *http.Response
	err        error
}

// ask is what a server does for a request. It completes m.
type ask func(ctx context.Context, far *link, m *message) error

// carry sends one request and returns its reply. If the caller leaves, the request arrives
// anyway, and the reply is dropped: the outcome is recorded as Unknown. The server learns
// that the caller has left when a reply would have arrived.
func (p *process) carry(ctx context.Context, draw *randomSource, op history.Op, ask ask) *message {
	p.thaw()
	if p.dead.Load() {
		return &message{err: errCut}
	}
	f, far := p.fate(draw), p.far.Load()
	op.Writer, op.Resource, op.Began = p.name, disputed, p.Now()
	serving, stop := context.WithCancelCause(far.ctx)
	left := context.AfterFunc(ctx, func() {
		time.Sleep(f.there + f.back)
		stop(errCut)
	})
	answers := make(chan *message, 1)
	go func() {
		m := &message{Op: op, twice: f.again > 0, err: errCut}
		if time.Sleep(f.there); !f.dropsRequest {
			err := ask(serving, far, m)
			if time.Sleep(f.back); !f.dropsReply && !p.dead.Load() {
				m.err = err
			}
		}
		p.takeDown(m, ctx.Err() == nil)
		if left() {
			stop(nil)
		}
		answers <- m
	}()
	if f.again > 0 {
		go func() {
			time.Sleep(f.there + f.again)
			m := &message{Op: op, err: errCut}
			_ = ask(far.ctx, far, m) // it has no caller
			p.takeDown(m, false)
		}()
	}
	select {
	case m := <-answers:
		p.thaw()
		return m
	case <-ctx.Done():
		return &message{err: context.Cause(ctx)}
	}
}

// takeDown records the op of m. A grant whose reply was lost keeps its number, which the
// caller does not know.
func (p *process) takeDown(m *message, heard bool) {
	op := m.Op
	op.Ended = p.Now()
	switch {
	case op.Kind == "":
		return
	case op.Kind == history.Acquire && op.Number == 0:
		op.Outcome = history.Failed // and it cannot be granted later
	case !heard, errors.Is(m.err, errCut):
		op.Outcome = history.Unknown
	case errors.Is(m.err, token.ErrLost), errors.Is(m.err, guard.ErrStale):
		op.Outcome = history.Refused
	case op.Outcome == "":
		op.Outcome = history.Accepted
	}
	if op.Outcome != history.Accepted {
		op.Until = 0
	}
	p.Add(op)
}

var (
	_ token.Issuer      = (*process)(nil)
	_ token.Recoverer   = (*process)(nil)
	_ token.QueueIssuer = queueing{}
)

// Acquire returns a refusal with a remaining time of a millisecond. That is less than the
// Locker's shortest pause, so its pauses repeat.
func (p *process) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := p.acquire(ctx, holder, func(ctx context.Context, far *link, m *message) (token.Grant, error) {
		grant, err := far.Acquire(ctx, resource, holder, ttl)
		grant.Until = p.Started().Add(m.Began + ttl)
		return grant, err
	})
	var held *token.HeldError
	if errors.As(err, &held) {
		held.Remaining = time.Millisecond
	}
	return grant, err
}

func (p *process) acquire(ctx context.Context, holder string, get func(context.Context, *link, *message) (token.Grant, error)) (token.Grant, error) {
	m := p.carry(ctx, p.work, history.Op{Kind: history.Acquire, Holder: holder}, func(ctx context.Context, far *link, m *message) error {
		grant, err := get(ctx, far, m)
		if err == nil {
			m.Number, m.Until = grant.Token.Number, grant.Until.Sub(p.Started())
		}
		return err
	})
	p.until.Store(int64(m.Until))
	return token.Grant{Token: token.Token{Resource: disputed, Number: m.Number, Holder: holder}, Until: p.Started().Add(m.Until)}, m.err
}

// queueing is a process that waits in the queue of its issuer.
type queueing struct{ *process }

// Wait implements [token.QueueIssuer].
func (p queueing) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	return p.acquire(ctx, holder, func(ctx context.Context, far *link, _ *message) (token.Grant, error) {
		return far.Issuer.(token.QueueIssuer).Wait(ctx, resource, holder, ttl)
	})
}

// Renew implements [token.Issuer].
func (p *process) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	m := p.carry(ctx, p.renewals, opOf(history.Renew, tok), func(ctx context.Context, far *link, m *message) error {
		_, err := far.Renew(ctx, tok, ttl)
		m.Until = m.Began + ttl
		return err
	})
	if m.err == nil {
		p.until.Store(int64(m.Until))
	}
	return p.Started().Add(m.Until), m.err
}

// relies records that the context of a lease has not ended before now, as a renewal: its
// holder has relied on the lease until now, whatever it was told.
func (p *process) relies(tok token.Token) {
	if p.has(jumps) {
		return // it cannot learn that the issuer's clock has ended its lease
	}
	op, now := opOf(history.Renew, tok), p.Now()
	op.Writer, op.Resource, op.Began, op.Ended, op.Outcome = p.name, disputed, now-1, now-1, history.Accepted
	op.Until = max(time.Duration(p.until.Load()), now)
	p.Add(op)
}

// Release implements [token.Issuer].
func (p *process) Release(ctx context.Context, tok token.Token) error {
	return p.carry(ctx, p.work, opOf(history.Release, tok), func(ctx context.Context, far *link, _ *message) error { return far.Release(ctx, tok) }).err
}

// Recover implements [token.Recoverer].
func (p *process) Recover(ctx context.Context, resource string, number int64) error {
	return p.carry(ctx, p.work, history.Op{}, func(ctx context.Context, far *link, _ *message) error {
		return far.Issuer.(token.Recoverer).Recover(ctx, resource, number)
	}).err
}

// Claim is a Locker's Claim.
func (p *process) Claim(ctx context.Context, tok token.Token) error {
	return p.carry(ctx, p.work, opOf(history.Claim, tok), func(context.Context, *link, *message) error { return p.marks.Admit(p.ctx, tok) }).err
}

// read asks the store for its row.
func (p *process) read(ctx context.Context) (row, error) {
	m := p.carry(ctx, p.work, history.Op{}, func(_ context.Context, _ *link, m *message) error {
		m.seen = p.store.read()
		return nil
	})
	return m.seen, m.err
}

// write sends one attempt of a unit to the store.
func (p *process) write(ctx context.Context, tok token.Token, u *unit, seen row) error {
	return p.carry(ctx, p.work, opOf(history.Write, tok), func(_ context.Context, _ *link, m *message) error {
		return p.store.write(p.ctx, tok, u, seen, &m.Op)
	}).err
}

func opOf(kind history.Kind, tok token.Token) history.Op {
	return history.Op{Kind: kind, Number: tok.Number, Holder: tok.Holder}
}

// RoundTrip implements [http.RoundTripper]: it sends one attempt of a unit to the service
// in front of the store.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	tok, err := token.FromContext(req.Context(), disputed)
	if err != nil {
		return nil, err
	}
	u := req.Context().Value(attemptKey{}).(*attempt).unit
	m := p.carry(req.Context(), p.work, opOf(history.Write, tok), func(_ context.Context, _ *link, m *message) error {
		seen := httptest.NewRecorder()
		p.service.ServeHTTP(seen, req.Clone(context.WithValue(p.ctx, attemptKey{}, &attempt{u, &m.Op})))
		m.response = seen.Result()
		switch {
		case seen.Code == http.StatusOK:
		case m.twice: // the other copy may be applied, so a proxy that repeats must not pass this reply on
			return errCut
		case seen.Code == http.StatusPreconditionFailed:
			m.Outcome = history.Refused
		default:
			m.Outcome = history.Failed
		}
		return nil
	})
	return m.response, m.err
}

// add writes what was seen plus one. It ignores whether ctx has ended, like a writer that
// has not noticed its pause.
func (p *process) add(ctx context.Context, seen row) error {
	ctx = context.WithoutCancel(ctx)
	tok, err := token.FromContext(ctx, disputed)
	if err != nil {
		return err
	}
	return p.write(ctx, tok, new(unit), seen)
}

// span is a part of a run. The zero span is empty.
type span struct{ from, until time.Duration }

func (s span) has(now time.Duration) bool { return s.from <= now && now < s.until }

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
func (d *randomSource) chance(n int) bool { return d.upTo(100) <= time.Duration(n) }
