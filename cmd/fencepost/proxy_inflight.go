package main

import (
	"context"
	"net/http"
	"sync"
)

// inFlight counts the requests in their handlers.
type inFlight struct {
	mu    sync.Mutex
	n     int
	ended chan struct{} // closed at 0; nil where nobody waits
}

func (f *inFlight) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.add(1)
		defer f.add(-1)
		next.ServeHTTP(w, r)
	})
}

func (f *inFlight) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n += n
	if f.n == 0 && f.ended != nil {
		close(f.ended)
		f.ended = nil
	}
}

func (f *inFlight) now() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// wait is called once, when no request comes any more.
func (f *inFlight) wait(ctx context.Context) error {
	f.mu.Lock()
	ended := make(chan struct{})
	if f.n == 0 {
		close(ended)
	} else {
		f.ended = ended
	}
	f.mu.Unlock()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
