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
	crowd         *crowd
	resource      int
	number        int64
	before, after pause
	dies          bool // the handler panics
	leaves        leaving
	cancel        context.CancelFunc
	counted       sync.Once
	applied       bool // written by the handler, read after all have ended
	status        int
	err           error
}

type (
	pause   int // how a handler pauses before or after its write
	leaving int // when a client disconnects
)

const (
	isQuick  pause = iota
	yields         // yields to other goroutines a few times
	meets          // until another handler meets, or all requests have arrived
	lingers        // until all requests have arrived, or a newer one cancels it
	stubborn       // until all requests have arrived, even if its context ends
	pauses
)

const (
	stays leaving = iota
	leavesAtOnce
	leavesOnArrival // its request may wait in InFlight
	leavesAtWork
)

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
		v := &stressRequest{crowd: c, resource: i % crowdResources, number: int64(1 + i/crowdResources)}
		if v.resource >= crowdShared {
			v.number = (v.number + 3) / 4
		}
		v.before, v.after = pause(random.IntN(int(pauses))), pause(random.IntN(int(pauses)))
		switch random.IntN(10) {
		case 0:
			v.dies = true
		case 1:
			v.leaves = leavesAtOnce
		case 2:
			v.leaves = leavesOnArrival
		case 3:
			v.leaves = leavesAtWork
		}
		c.requests = append(c.requests, v)
	}
	random.Shuffle(crowdSize, func(i, j int) { c.requests[i], c.requests[j] = c.requests[j], c.requests[i] })
	return c
}

// handler returns the service: it counts the request, and passes it through m to the
// handler that writes.
func (c *crowd) handler(m httpguard.Middleware, bare bool) http.Handler {
	m.Resources = httpguard.Pattern("{resource}")
	guarded := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.of(r).work(w, r, bare)
	}))
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /{resource}/{request}", func(w http.ResponseWriter, r *http.Request) {
		v := c.of(r)
		v.count()
		if v.leaves == leavesOnArrival {
			v.cancel()
		}
		guarded.ServeHTTP(w, r)
	})
	mux.Handle("POST /{resource}", m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	return mux
}

func (c *crowd) of(r *http.Request) *stressRequest {
	i, _ := strconv.Atoi(r.PathValue("request"))
	return c.requests[i]
}

func (v *stressRequest) count() {
	v.counted.Do(func() {
		if v.crowd.missing.Add(-1) == 0 {
			close(v.crowd.all)
		}
	})
}

func (v *stressRequest) work(w http.ResponseWriter, r *http.Request, bare bool) {
	if v.leaves == leavesAtWork {
		v.cancel()
	}
	v.crowd.pause(r.Context(), v.before)
	l := &v.crowd.ledgers[v.resource]
	if !bare || v.resource >= crowdShared {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	l.numbers = append(l.numbers, v.number)
	v.applied = true
	if bare && v.resource < crowdShared { // not while others wait for the mutex
		v.crowd.pause(r.Context(), v.after)
	}
	if v.dies {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (c *crowd) pause(ctx context.Context, p pause) {
	switch p {
	case yields:
		for range 20 {
			runtime.Gosched()
		}
	case meets:
		select {
		case c.meeting <- struct{}{}:
		case <-c.meeting:
		case <-c.all:
		}
	case lingers:
		select {
		case <-ctx.Done():
		case <-c.all:
		}
	case stubborn:
		<-c.all
	}
}

// send sends v, and records its outcome.
func (v *stressRequest) send(ctx context.Context, i int, client *http.Client, url string) {
	ctx, v.cancel = context.WithCancel(ctx)
	defer v.cancel()
	defer v.count()
	path := fmt.Sprintf("%s/resource-%d/%d", url, v.resource, i)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, path, nil)
	if err != nil {
		v.err = err
		return
	}
	req.Header.Set(httpguard.Header, line(fmt.Sprintf("resource-%d", v.resource), v.number, fmt.Sprint("h", v.number)))
	if v.leaves == leavesAtOnce {
		go v.cancel()
	}
	resp, err := client.Do(req)
	if err != nil {
		v.err = err
		return
	}
	v.status = resp.StatusCode
	_ = resp.Body.Close()
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
		back.Go(func() { v.send(t.Context(), i, sites[i%2].Client(), sites[i%2].URL) })
	}
	back.Wait()
	if !m.DangerouslySkipInFlight {
		c.nothingIsHeld(t, sites[0])
	}
	for _, s := range sites {
		s.Close() // waits for handlers whose clients have left
	}
}

// nothingIsHeld sends one more request to each resource, with the highest number.
func (c *crowd) nothingIsHeld(t *testing.T, s site) {
	t.Helper()
	for i := range crowdResources {
		resource := fmt.Sprintf("resource-%d", i)
		require.Equal(t, http.StatusOK, s.do("POST", "/"+resource, line(resource, crowdSize, "last")).status)
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
