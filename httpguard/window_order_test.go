package httpguard_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// Two requests that name the same two resources in two orders: were the gates
// entered in those, each would wait for the other until the bound.
func TestTwoResourcesInTwoOrders(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })
	window := &httpguard.Window{}
	m := httpguard.Middleware{Store: &guard.Memory{}, Window: window, Wait: time.Minute}
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
	require.Zero(t, httpguard.Entries(window))
}
