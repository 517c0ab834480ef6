package httpguard_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// overBothVersions runs test over HTTP/1.1 and over HTTP/2.
func overBothVersions(t *testing.T, test func(t *testing.T, o blockingSite), change ...func(*httpguard.Middleware)) {
	t.Helper()
	bothVersions(t, func(t *testing.T, two bool) { test(t, open(t, two, change...)) })
}

// play is one run of a script: steps separated by commas, each a request and what it does
// or what must happen to it. A request is named by its token's number, a letter for
// another holder of the number, and a prime for each further request of the token: 34,
// 34b, 34'.
type play struct {
	blockingSite
	replies map[string]<-chan reply
	cancels map[string]context.CancelFunc
	works   map[string]*work // the handlers that were called
	stops   *stoppingStore   // the store, if the script's middleware uses it
}

func (p *play) run(t *testing.T, script string) {
	t.Helper()
	for step := range strings.SplitSeq(script, ", ") {
		name, verb, _ := strings.Cut(strings.TrimSpace(step), " ")
		t.Log(step)
		p.step(t, name, verb)
	}
}

func (p *play) step(t *testing.T, name, verb string) {
	t.Helper()
	number, err := strconv.ParseInt(name[:2], 10, 64)
	require.NoError(t, err)
	switch verb {
	case "comes":
		var ctx context.Context
		ctx, p.cancels[name] = context.WithCancel(t.Context())
		p.replies[name] = p.later(ctx, number, "h"+strings.TrimRight(name, "'"), name)
	case "runs":
		for p.works[name] == nil {
			k, _ := p.next(t)
			p.works[k.r.Header.Get("X-Name")] = k
		}
		tok, err := token.FromContext(p.works[name].r.Context(), "account/42")
		require.NoError(t, err)
		require.Equal(t, number, tok.Number)
	case "waits": // and has not entered its handler
		p.waiting(t, 1)
		require.Nil(t, p.works[name])
		require.Empty(t, p.arrivals, "a handler was called")
	case "works on":
		require.NoError(t, p.works[name].r.Context().Err())
	case "is cancelled":
		p.isCancelled(t, p.works[name].r.Context(), number)
	case "leaves":
		p.works[name].leave()
		require.Equal(t, http.StatusNoContent, p.reply(t, name).status)
	case "returns": // whatever its client gets
		p.works[name].leave()
		p.reply(t, name)
	case "gives up": // as a guard's error makes it
		k := p.works[name]
		k.finish(func() { httpguard.Error(k.w, k.r, guard.WithCause(k.r.Context(), k.r.Context().Err())) })
		p.stale(t, name)
	case "panics":
		p.works[name].finish(func() { panic(http.ErrAbortHandler) })
		require.Zero(t, p.reply(t, name).status)
	case "disconnects":
		p.cancels[name]()
		require.Zero(t, p.reply(t, name).status)
	case "is left":
		p.works[name].dismissed(t)
		require.Equal(t, context.Canceled, context.Cause(p.works[name].r.Context()), "no newer token cancelled it")
		p.works[name].leave()
	case "is stale":
		p.stale(t, name)
	case "is told to retry":
		got := p.reply(t, name)
		requireProblem(t, http.StatusServiceUnavailable, httpguard.ProblemUnavailable, got)
		require.Equal(t, "1", got.header.Get("Retry-After"))
	case "is the mark":
		require.EqualValues(t, number, p.marks.Mark("account/42").Number)
	case "is admitted": // by a store that stops then
		require.Equal(t, number, <-p.stops.admitted)
	case "is cancelled in the store":
		p.isCancelled(t, p.stops.ctx, number)
	case "goes on":
		p.stops.release()
	case "waits no more":
		p.waiting(t, 0)
	case "leaves no trace":
		p.empty(t)
	default:
		require.Fail(t, "no such step", verb)
	}
}

func (p *play) isCancelled(t *testing.T, ctx context.Context, number int64) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		require.Fail(t, "the context did not end")
	}
	var dismissed *guard.DismissedError
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.ErrorAs(t, context.Cause(ctx), &dismissed)
	require.ErrorIs(t, dismissed, guard.ErrStale)
	require.Equal(t, number, dismissed.Token.Number)
}

// reply waits for the response to a request whose handler is not called from here on.
func (p *play) reply(t *testing.T, name string) reply {
	t.Helper()
	for {
		select {
		case got := <-p.replies[name]:
			return got
		case k := <-p.arrivals:
			called := k.r.Header.Get("X-Name")
			require.NotEqual(t, name, called, "its handler was called")
			p.works[called] = k
		case <-time.After(time.Minute):
			require.Fail(t, "no response", name)
		}
	}
}

func (p *play) stale(t *testing.T, name string) {
	t.Helper()
	requireProblem(t, http.StatusPreconditionFailed, httpguard.ProblemStale, p.reply(t, name))
}

// stoppingStore stops after it has admitted 34.
type stoppingStore struct {
	guard.Memory
	ctx      context.Context // of the call for 34
	admitted chan int64
	resume   chan struct{}
	release  func()
	fails    bool // and then returns the error of its context
}

func (s *stoppingStore) Admit(ctx context.Context, tok token.Token) error {
	err := s.Memory.Admit(ctx, tok)
	if tok.Number == 34 {
		s.ctx = ctx
		s.admitted <- tok.Number
		<-s.resume
		if s.fails {
			return ctx.Err()
		}
	}
	return err
}

// first makes m the naive middleware that calls the store before a request is in flight.
func (s *stoppingStore) first(m *httpguard.Middleware) {
	m.Store, m.Resources = nil, func(r *http.Request) ([]string, error) {
		toks, err := httpguard.Parse(r.Header[httpguard.Header])
		if err == nil {
			err = s.Admit(r.Context(), toks[0])
		}
		return []string{"account/42"}, err
	}
}

// The mark is 33 at the beginning of each script. W1 is the write of an older handler
// after that of a newer one, W8 a slot that stays taken, W12 a store that is called before
// the request is in flight.
func TestAnOlderHandlerStopsBeforeItsWrite(t *testing.T) {
	t.Parallel()
	// hazards W1, W8, W12
	skip := func(m *httpguard.Middleware, _ *stoppingStore) { m.DangerouslySkipInFlight = true }
	alone := func(m *httpguard.Middleware, _ *stoppingStore) { m.Store = nil }
	hasty := func(m *httpguard.Middleware, _ *stoppingStore) { m.WaitTimeout = 50 * time.Millisecond }
	stopped := func(m *httpguard.Middleware, s *stoppingStore) { m.Store = s }
	failing := func(m *httpguard.Middleware, s *stoppingStore) { m.Store, s.fails = s, true }
	naive := func(m *httpguard.Middleware, s *stoppingStore) { s.first(m) }
	for name, c := range map[string]struct {
		script string
		change func(*httpguard.Middleware, *stoppingStore)
	}{
		"W1: a newer token waits until the older handler has returned": {
			"34 comes, 34 runs, 35 comes, 34 is cancelled, 35 waits, 34 is the mark, 34 gives up, 35 runs, 35 leaves", nil},
		"W1: whatever the older handler does": {
			"34 comes, 34 runs, 35 comes, 34 is cancelled, 35 waits, 34 leaves, 35 runs, 35 leaves, 35 is the mark", nil},
		"W1: the twin, without InFlight, returns last": {
			"34 comes, 34 runs, 35 comes, 35 runs, 35 leaves, 34 works on, 34 leaves", skip},
		"an older token is stale while a newer one waits or works, without a store too": {
			"34 comes, 34 runs, 35 comes, 35 waits, 34' comes, 34' is stale, 34 leaves, 35 runs, 34'' comes, 34'' is stale, 35 leaves", alone},
		"W12: a still newer token overtakes the one that waits": {
			"34 comes, 34 runs, 35 comes, 35 waits, 36 comes, 35 is stale, 34 leaves, 36 runs, 36 leaves", nil},
		"W12: no request overtakes one that the store has admitted": {
			"34 comes, 34 is admitted, 35 comes, 34 is cancelled in the store, 34 goes on, 34 is stale, 35 runs, 35 leaves", stopped},
		"W12: a store's error that its context has ended is no failure of the store": {
			"34 comes, 34 is admitted, 35 comes, 34 is cancelled in the store, 34 goes on, 34 is stale, 35 runs, 35 leaves", failing},
		"W12: the twin, whose store comes first, admits a request that enters too late": {
			"34 comes, 34 is admitted, 35 comes, 35 runs, 35 leaves, 34 goes on, 34 runs, 34 leaves", naive},
		"requests under one token run in parallel": {
			"34 comes, 34' comes, 34 runs, 34' runs, 35 comes, 34 is cancelled, 34' is cancelled, 34 leaves, 35 waits, 34' leaves, 35 runs, 35 leaves", nil},
		"a handler calls its own service, without a deadlock while a newer token waits": {
			"34 comes, 34 runs, 34' comes, 34' runs, 34' leaves, 35 comes, 35 waits, 34'' comes, 34'' is stale, 34 leaves, 35 runs, 35 leaves", nil},
		"holders of one number take turns, and the store decides": {
			"34 comes, 34 runs, 34b comes, 34b waits, 34 works on, 34 leaves, 34b is stale", nil},
		"the wait is bounded": { // over HTTP/2 the stream of 34 is reset, since it had time enough
			"34 comes, 34 runs, 35 comes, 35 is told to retry, 34 is the mark, 34 returns, 34 leaves no trace, 35' comes, 35' runs, 35' leaves", hasty},
		"W8: after a panic": {
			"34 comes, 34 runs, 34 panics, 34 leaves no trace, 36 comes, 36 runs, 36 leaves", nil},
		"W8: after a client that left while its request worked": {
			"34 comes, 34 runs, 34 disconnects, 34 is left, 34 leaves no trace, 36 comes, 36 runs, 36 leaves", nil},
		"W8: after a client that left while its request waited": {
			"34 comes, 34 runs, 35 comes, 35 waits, 35 disconnects, 35 waits no more, 34 leaves, 34 leaves no trace, 36 comes, 36 runs, 36 leaves", nil},
		"W8: after a refusal by the store": {
			"32 comes, 32 is stale, 32 leaves no trace, 36 comes, 36 runs, 36 leaves", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothVersions(t, func(t *testing.T, two bool) {
				stops := &stoppingStore{admitted: make(chan int64, 1), resume: make(chan struct{})}
				stops.release = sync.OnceFunc(func() { close(stops.resume) })
				p := play{open(t, two, func(m *httpguard.Middleware) {
					if c.change != nil {
						c.change(m, stops)
					}
				}), map[string]<-chan reply{}, map[string]context.CancelFunc{}, map[string]*work{}, stops}
				t.Cleanup(stops.release) // otherwise the server waits for its handler forever
				p.run(t, c.script)
			})
		})
	}
}

// Two requests name the same two resources in opposite orders. If they entered the queues
// in these orders, each would wait for the other until the timeout.
func TestTwoResourcesInTwoOrders(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })
	inFlight := &httpguard.InFlight{}
	m := httpguard.Middleware{Store: &guard.Memory{}, InFlight: inFlight, WaitTimeout: time.Minute}
	mux := http.NewServeMux()
	for path, order := range map[string]func(*http.Request) ([]string, error){
		"PUT /there": func(*http.Request) ([]string, error) { return []string{"a", "b", "a"}, nil },
		"PUT /back":  func(*http.Request) ([]string, error) { return []string{"b", "a"}, nil },
	} {
		m.Resources = order
		mux.Handle(path, m.Wrap(count))
	}
	s := serve(t, mux, false)
	var clients sync.WaitGroup
	for _, path := range []string{"/there", "/back"} {
		for range 4 {
			clients.Go(func() {
				for n := range int64(25) {
					status := s.try(path, line("a", n+1, "h"), line("b", n+1, "h"))
					if status != http.StatusOK && status != http.StatusPreconditionFailed {
						t.Errorf("%s was answered %d", path, status)
					}
				}
			})
		}
	}
	clients.Wait()
	require.Positive(t, served.Load())
	require.Zero(t, httpguard.Queues(inFlight))
}
