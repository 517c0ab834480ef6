package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// probe bounds the store's answer to one question.
const probe = 2 * time.Second

// serveHealth answers on an address of its own, where no path is the upstream's:
// /livez whether the process answers, /readyz whether it takes requests and its
// store answers. Neither asks the upstream, which has an answer of its own.
func (p *proxy) serveHealth(leaving *atomic.Bool, failed chan<- error) (*http.Server, error) {
	listener, err := net.Listen("tcp", p.HealthListen)
	if err != nil {
		return nil, fmt.Errorf("proxy: --health-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case leaving.Load():
			say(w, http.StatusServiceUnavailable, "ending")
		case !p.storeAnswers(r.Context()):
			say(w, http.StatusServiceUnavailable, "the store of marks does not answer")
		default:
			say(w, http.StatusOK, "ready")
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ErrorLog: p.log.standard()}
	go func() { failed <- server.Serve(listener) }()
	p.log.Info("health", "address", listener.Addr().String())
	return server, nil
}

func (p *proxy) storeAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probe)
	defer cancel()
	if err := p.store.ready(ctx); err != nil {
		p.log.Error("not ready", "error", err)
		return false
	}
	return true
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}
