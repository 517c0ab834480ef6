package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
)

// service is one replica.
type service struct {
	*Cmd
	store   *connect.LockStore
	guards  []*connect.Guard
	handler http.Handler // of what has passed the check of the host

	rights      *httptoken.Rights  // nil without --rights
	keyring     *signature.Keyring // nil without --signature-keys
	certificate atomic.Pointer[tls.Certificate]
	stopping    atomic.Bool
}

// open connects to the servers, and reads the files.
func (c *Cmd) open(ctx context.Context) (s *service, err error) {
	if err = c.check(); err != nil {
		return nil, err
	}
	s = &service{Cmd: c}
	if c.Rights != "" {
		s.rights = new(httptoken.Rights)
	}
	if c.SignatureKeys != "" {
		s.keyring = new(signature.Keyring)
	}
	if err = s.load(); err != nil {
		return nil, err
	}
	if c.Memory {
		s.store = connect.Memory()
	} else if s.store, err = c.Open(ctx, "fencepost serve", c.KeyPrefix); err != nil {
		return nil, err
	}
	api := &httptoken.Handler{
		Issuer: s.store.Issuer, Keyring: s.keyring, Rights: s.rights,
		Guards: map[string]guard.Store{}, MaxWaiters: c.MaxWaiters,
	}
	for _, url := range c.Guard {
		g, err := connect.OpenGuard(ctx, url, c.Schema, "fencepost serve", guardIdle)
		if err != nil {
			s.close()
			return nil, err
		}
		s.guards = append(s.guards, g)
		api.Guards[g.Name] = g.Store
	}
	s.handler = s.routes(api)
	return s, nil
}

// guardIdle is how long an open transaction of a deposed holder may go on.
const guardIdle = 5 * time.Second

func (s *service) close() {
	s.store.Shutdown()
	for _, g := range s.guards {
		g.Close()
	}
}

// load reads the files of the flags. What cannot be read stays as it is.
func (s *service) load() error {
	read := func(flag, file string, use func(text string) error) error {
		if file == "" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = use(string(text))
		}
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		return nil
	}
	return errors.Join(
		read("rights", s.Rights, func(text string) error { return s.rights.Replace(text) }),
		read("signature-keys", s.SignatureKeys, func(text string) error {
			keys, err := signature.ParseKeys(text)
			if err == nil {
				err = s.keyring.Replace(keys...)
			}
			return err
		}),
		read("tls-cert", s.TLSCert, func(string) error {
			pair, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
			if err == nil {
				s.certificate.Store(&pair)
			}
			return err
		}),
	)
}

// measured returns api, and the metrics of its requests and of the process. No label has a name
// of a lock or of a holder: every client that can connect may read them.
func measured(api http.Handler) (http.Handler, *prometheus.Registry) {
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{Name: "fencepost_serve_requests_in_flight", Help: "Requests that are not answered yet, of which most wait for a lock."})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fencepost_serve_request_seconds", Help: "How long requests took, with their waits.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"method", "code"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(inFlight, seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.InstrumentHandlerInFlight(inFlight, promhttp.InstrumentHandlerDuration(seconds, api)), registry
}

// routes returns the API, and besides it the page, /healthz (the process answers), /readyz (it
// accepts requests, and its issuer answers) and /metrics.
func (s *service) routes(api http.Handler) http.Handler {
	api, registry := measured(api)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if s.stopping.Load() {
			http.Error(w, "ending", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		// A renewal of what no holder has changes nothing. A server that is read only refuses it.
		_, err := s.store.Renew(ctx, token.Token{Resource: "fencepost/readyz", Number: 1, Holder: "readyz"}, time.Second)
		if !errors.Is(err, token.ErrLost) {
			slog.Error("not ready", "error", err)
			http.Error(w, "the issuer does not answer", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/openapi.json", api)
	mux.Handle("/{$}", s.page(api))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.EscapedPath(), "/v1/") {
			api.ServeHTTP(w, r) // a mux would redirect //, and the API refuses it
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// ServeHTTP implements http.Handler. Without rights, what protects the locks is that only this
// machine can connect. A page of evil.example could connect from a browser on this machine, if
// its name is made to resolve to 127.0.0.1. Its requests have the Host evil.example.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.rights == nil && !s.DangerouslyOpen {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && host != "localhost" {
			http.Error(w, "Without --rights the host must be localhost or an address.", http.StatusMisdirectedRequest)
			return
		}
	}
	s.handler.ServeHTTP(w, r)
}
