package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

const (
	crowdSize      = 1000
	crowdResources = 50
	crowdShared    = 40 // resources from here on have several requests under one token
)

// crowd is a thousand requests that are sent at once. All random choices are drawn from
// the seed beforehand.
type crowd struct {
	requests []*stressRequest
	ledgers  [crowdResources]ledger
	missing  atomic.Int64  // requests that have neither arrived nor given up
	all      chan struct{} // closed when none is missing
	meeting  chan struct{}
}

// stressRequest is one request, and what its handler and its client do.
type stressRequest struct {
	resource      int
	number        int64
	before, after int // pauses of the handler, in front of its write and behind it
	dies          bool
	leaves        int // when the client disconnects
	cancel        context.CancelFunc
	counted       sync.Once
	applied       bool // written by the handler, read after all have ended
	status        int
	err           error
}

// The ends of a client: leavesOnArrival is while its request may wait in InFlight.
const stays, leavesAtOnce, leavesOnArrival, leavesAtWork = 0, 1, 2, 3

// ledger records the writes to one resource. Only InFlight guards it, and the race
// detector verifies that. The mutex is for requests that share a token, and for the twin.
type ledger struct {
	mu      sync.Mutex
	numbers []int64
}

func newCrowd(seed uint64) *crowd {
	random := rand.New(rand.NewPCG(seed, 0))
	c := &crowd{all: make(chan struct{}), meeting: make(chan struct{})}
	c.missing.Store(crowdSize)
	for i := range crowdSize {
		v := &stressRequest{resource: i % crowdResources, number: int64(1 + i/crowdResources)}
		if v.resource >= crowdShared {
			v.number = (v.number + 3) / 4
		}
		v.before, v.after = random.IntN(5), random.IntN(5)
		if end := random.IntN(10); end <= leavesAtWork { // one of ten dies, and three leave
			v.dies, v.leaves = end == stays, end
		}
		c.requests = append(c.requests, v)
	}
	random.Shuffle(crowdSize, func(i, j int) { c.requests[i], c.requests[j] = c.requests[j], c.requests[i] })
	return c
}

// handler returns the service: it counts the request, and passes it through m to the handler that writes.
func (c *crowd) handler(m httpguard.Middleware, bare bool) http.Handler {
	of := func(r *http.Request) *stressRequest {
		i, _ := strconv.Atoi(r.PathValue("request"))
		return c.requests[i]
	}
	m.Resources = httpguard.Pattern("{resource}")
	guarded := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.work(of(r), w, r, bare) }))
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /{resource}/{request}", func(w http.ResponseWriter, r *http.Request) {
		v := of(r)
		c.count(v)
		if v.leaves == leavesOnArrival {
			v.cancel()
		}
		guarded.ServeHTTP(w, r)
	})
	return mux
}

func (c *crowd) count(v *stressRequest) {
	v.counted.Do(func() {
		if c.missing.Add(-1) == 0 {
			close(c.all)
		}
	})
}

func (c *crowd) work(v *stressRequest, w http.ResponseWriter, r *http.Request, bare bool) {
	if v.leaves == leavesAtWork {
		v.cancel()
	}
	c.pause(r.Context(), v.before)
	l := &c.ledgers[v.resource]
	if !bare || v.resource >= crowdShared {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	l.numbers = append(l.numbers, v.number)
	v.applied = true
	if bare && v.resource < crowdShared { // not while others wait for the mutex
		c.pause(r.Context(), v.after)
	}
	if v.dies {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (c *crowd) pause(ctx context.Context, kind int) {
	switch kind {
	case 1:
		for range 20 {
			runtime.Gosched()
		}
	case 2: // until another handler meets, or all requests have arrived
		select {
		case c.meeting <- struct{}{}:
		case <-c.meeting:
		case <-c.all:
		}
	case 3: // until all requests have arrived, or a newer one cancels it
		select {
		case <-ctx.Done():
		case <-c.all:
		}
	case 4: // until all requests have arrived, even if its context ends
		<-c.all
	}
}

// run sends all requests, half over HTTP/1.1 and half over HTTP/2, and returns when all
// have ended and the servers have closed.
func (c *crowd) run(t *testing.T, m httpguard.Middleware, bare bool) {
	t.Helper()
	h := c.handler(m, bare)
	var sites [2]site
	for i := range sites {
		server := httptest.NewUnstartedServer(h)
		if server.EnableHTTP2 = i == 1; server.EnableHTTP2 {
			server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: crowdSize}
			server.StartTLS()
		} else {
			server.Start()
		}
		t.Cleanup(server.Close)
		sites[i] = site{t, server}
		// From here on HTTP/2 has a connection: the server would time out during five
		// hundred simultaneous handshakes.
		require.Equal(t, i+1, sites[i].do("GET", "/").major)
	}
	var back sync.WaitGroup
	for i, v := range c.requests {
		resource := fmt.Sprint("resource-", v.resource)
		var ctx context.Context
		ctx, v.cancel = context.WithCancel(t.Context())
		req := sites[i%2].request(ctx, "PUT", fmt.Sprintf("/%s/%d", resource, i), nil, line(resource, v.number, fmt.Sprint("h", v.number)))
		back.Go(func() {
			defer v.cancel()
			defer c.count(v)
			if v.leaves == leavesAtOnce {
				go v.cancel()
			}
			var resp *http.Response
			if resp, v.err = sites[i%2].Client().Do(req); v.err == nil {
				v.status = resp.StatusCode
				_ = resp.Body.Close()
			}
		})
	}
	back.Wait()
	for _, s := range sites {
		s.Close() // waits for handlers whose clients have left
	}
}

// fallen returns the resources on which an older token wrote after a newer one.
func (c *crowd) fallen() (resources []int) {
	for i := range c.ledgers {
		if !slices.IsSorted(c.ledgers[i].numbers) {
			resources = append(resources, i)
		}
	}
	return resources
}

func TestAThousandRequestsWriteInOrder(t *testing.T) {
	t.Parallel()
	// hazards W1, W8, W12
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	t.Run("without InFlight they do", func(t *testing.T) {
		t.Parallel()
		twin := newCrowd(seed)
		twin.run(t, httpguard.Middleware{Store: &guard.Memory{}, DangerouslySkipInFlight: true}, false)
		require.NotEmpty(t, twin.fallen(), "no older token wrote after a newer one")
	})
	t.Run("with it they do not, and nothing is left", func(t *testing.T) {
		t.Parallel()
		var inFlight httpguard.InFlight
		c := newCrowd(seed)
		c.run(t, httpguard.Middleware{Store: &guard.Memory{}, InFlight: &inFlight, WaitTimeout: 5 * time.Minute}, true)
		require.Eventually(t, func() bool { return httpguard.Queues(&inFlight) == 0 }, time.Minute, time.Millisecond)
		for _, i := range c.fallen() {
			t.Errorf("resource %d: %v", i, c.ledgers[i].numbers)
		}
		c.tellsTheTruth(t)
	})
}

// tellsTheTruth compares the responses with what was written, and requires that every
// outcome has occurred.
func (c *crowd) tellsTheTruth(t *testing.T) {
	t.Helper()
	happened := map[string]int{}
	for i, v := range c.requests {
		switch {
		case v.err == nil && v.status == http.StatusNoContent:
			happened["applied"]++
			require.True(t, v.applied, "request %d has a 2xx response", i)
		case v.err == nil && v.status == http.StatusPreconditionFailed:
			happened["refused"]++
			require.False(t, v.applied, "request %d has a response that nothing was applied", i)
		case v.err != nil && v.dies && !errors.Is(v.err, context.Canceled):
			happened["died"]++
		case v.err != nil && v.leaves != stays:
			happened["left"]++
			if v.applied {
				happened["left and applied"]++
			}
		default:
			t.Errorf("request %d: %d %v", i, v.status, v.err)
		}
	}
	for _, outcome := range []string{"applied", "refused", "died", "left", "left and applied"} {
		require.NotZero(t, happened[outcome], "no request was %s: %v", outcome, happened)
	}
	t.Log(happened)
}
