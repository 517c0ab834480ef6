package testenv

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
)

// etcdPeers is the network between the members of a cluster: a relay in front of each. The
// members send HTTP, and name themselves in a header, so that a relay knows both ends.
type etcdPeers struct {
	mu    sync.Mutex
	apart *EtcdServer // is cut off, unless it is nil
	id    string      // of apart, as in the header
	open  map[*http.Request]peerRequest
}

type peerRequest struct {
	from string
	to   *EtcdServer
	end  context.CancelFunc
}

// isCut reports whether r is to or from the member that is cut off.
func (p *etcdPeers) isCut(r peerRequest) bool {
	return p.apart != nil && (r.to == p.apart || r.from == p.id)
}

// relay starts the relay in front of a member, and returns its address for the others.
func (p *etcdPeers) relay(t testing.TB, member *EtcdServer, target string) string {
	t.Helper()
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: target}) },
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		request := peerRequest{r.Header.Get("X-Server-From"), member, end}
		p.mu.Lock()
		refused := p.isCut(request)
		p.open[r] = request
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.open, r)
		}()
		if refused {
			panic(http.ErrAbortHandler) // closes the connection
		}
		proxy.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
	return server.Listener.Addr().String()
}

// CutOff cuts a member of [EtcdCluster] off from the others until heal is called. Clients still
// reach it.
func (s *EtcdServer) CutOff() (heal func()) {
	var status struct {
		Header struct {
			MemberID uint64 `json:"member_id,string"`
		}
	}
	if err := s.ask("/v3/maintenance/status", &status); err != nil {
		s.own.t.Fatalf("testenv: the id of the member: %v", err)
	}
	p := s.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apart, p.id = s, strconv.FormatUint(status.Header.MemberID, 16)
	for _, r := range p.open {
		if p.isCut(r) {
			r.end()
		}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.apart = nil
	}
}
