package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/httpguard"
)

// loopback is a server of all handlers, and a client that keeps its connections.
type loopback struct {
	server http.Server
	client http.Client
	url    string
	ended  chan struct{}
}

func (l *loopback) open(g *Group) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for name, handler := range map[string]http.Handler{
		"bare": bare, "refusing": refusing, "guarded": guarded(bare, &g.marks, nil), "sealed": guarded(bare, &g.marks, g.ring),
	} {
		mux.Handle("PUT /"+name+"/{id}", handler)
	}
	l.server.Handler = mux
	l.client.Transport = &http.Transport{MaxIdleConnsPerHost: many, MaxConnsPerHost: many}
	l.url, l.ended = "http://"+listener.Addr().String(), make(chan struct{})
	go func() {
		defer close(l.ended)
		_ = l.server.Serve(listener) // that it was closed
	}()
	return nil
}

func (l *loopback) close() {
	if l.ended == nil {
		return
	}
	l.client.CloseIdleConnections()
	_ = l.server.Close()
	<-l.ended
}

// put asks the handler of that name.
func (l *loopback) put(name string, f *fields, status int) measure.Op {
	return func(ctx context.Context, worker int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, l.url+"/"+name+"/"+account(worker), body())
		if err != nil {
			return err
		}
		req.Header.Set(httpguard.Header, f[worker])
		resp, err := l.client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return errors.Join(err, resp.Body.Close(), answered(resp.StatusCode, status))
	}
}

// endToEnd begins with the noise, which nobody can state in advance: a target that
// is missed by less than the quartiles of a/a are apart is not missed.
func (g *Group) endToEnd(workers int) []measure.Figure {
	plain := g.loopback.put("bare", &g.current, http.StatusNoContent)
	admitted := measure.Figure{
		Name: "end to end", Baseline: "the handler alone", Target: within(workers),
		Plain: plain, Ours: g.loopback.put("guarded", &g.current, http.StatusNoContent),
	}
	figures := []measure.Figure{
		admitted.AA("end to end, a/a"), admitted,
		{
			Name: "end to end, sealed", Baseline: "the handler alone",
			Plain: plain, Ours: g.loopback.put("sealed", &g.sealed, http.StatusNoContent),
		},
		{
			Name: "end to end, refused", Baseline: "a handler that refuses",
			Plain: g.loopback.put("refusing", &g.overtaken, http.StatusPreconditionFailed),
			Ours:  g.loopback.put("guarded", &g.overtaken, http.StatusPreconditionFailed),
		},
	}
	for i := range figures {
		figures[i].Setup = g.claim
		figures[i].Workers = workers
		if workers > 1 {
			figures[i].Name += fmt.Sprintf(", %d workers", workers)
		}
	}
	return figures
}

func within(workers int) float64 {
	if workers > 1 {
		return 1.05
	}
	return 1.03
}
