package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/cli"
)

// serve returns when a signal has ended the proxy, or a listener has failed.
func (p *proxy) serve() error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)

	listener, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return fmt.Errorf("proxy: --listen: %w", err)
	}
	server := p.server(p.running.count(p))
	failed := make(chan error, 3)
	var stopping atomic.Bool
	if p.HealthListen != "" {
		health, err := p.serveHealth(&stopping, failed)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		defer health.Close()
	}
	if p.Metrics != "" {
		metrics, err := p.serveMetrics(failed)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		defer metrics.Close()
	}
	go func() {
		if server.TLSConfig != nil {
			failed <- server.ServeTLS(listener, "", "")
		} else {
			failed <- server.Serve(listener)
		}
	}()
	p.log.Info("listening", "address", listener.Addr().String(), "upstream", p.Upstream)
	for {
		select {
		case err := <-failed:
			return errors.Join(fmt.Errorf("proxy: %w", err), server.Close())
		case <-reload:
			p.reload()
		case s := <-signals:
			signal.Stop(signals) // a second one ends the process
			stopping.Store(true)
			p.log.Info("ending", "signal", s.String(), "in_flight", p.running.Load())
			return p.shutdown(server)
		}
	}
}

func (p *proxy) server(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: handler, Protocols: protocols, TLSConfig: p.files.tls(), ErrorLog: p.log.standard(),
		MaxHeaderBytes: int(p.MaxHeaderBytes), ReadHeaderTimeout: p.ReadHeaderTimeout, IdleTimeout: p.IdleTimeout,
	}
}

// reload keeps the old files if the new ones cannot be read.
func (p *proxy) reload() {
	if err := p.files.load(); err != nil {
		p.log.Error("files were not read again: the old ones stay", "error", err)
		return
	}
	p.log.Info("files were read again")
}

// shutdown waits until the requests in flight are answered, for --grace at most. Upgraded
// connections are among them.
func (p *proxy) shutdown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.Grace)
	defer cancel()
	err := server.Shutdown(ctx)
	if err == nil {
		err = p.running.wait(ctx)
	}
	if err == nil {
		p.log.Info("ended")
		return nil
	}
	p.log.Error("ended before its requests did", "cut_off", p.running.Load())
	return errors.Join(cli.ErrNo, server.Close())
}

// inFlight counts the requests in their handlers.
type inFlight struct{ atomic.Int64 }

func (f *inFlight) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.Add(1)
		defer f.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// wait returns when no request is in flight. It polls, as [http.Server.Shutdown] does.
func (f *inFlight) wait(ctx context.Context) error {
	for f.Load() > 0 {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// reloadedFiles are the files that SIGHUP reads again.
type reloadedFiles struct {
	signatureKeys, tlsCert, tlsKey string

	keyring     *signature.Keyring // nil: signatures are not checked
	certificate atomic.Pointer[tls.Certificate]
}

// load reads all files, and changes nothing unless all can be read.
func (f *reloadedFiles) load() error {
	var keys []signature.Key
	if f.signatureKeys != "" {
		text, err := os.ReadFile(f.signatureKeys)
		if err == nil {
			keys, err = signature.ParseKeys(string(text))
		}
		if err != nil {
			return fmt.Errorf("--signature-keys: %w", err)
		}
	}
	if f.tlsCert != "" {
		certificate, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
		if err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
		defer f.certificate.Store(&certificate)
	}
	return f.replace(keys)
}

func (f *reloadedFiles) replace(keys []signature.Key) (err error) {
	switch {
	case f.signatureKeys == "":
		return nil
	case f.keyring == nil:
		f.keyring, err = signature.New(keys...)
	default:
		err = f.keyring.Replace(keys...)
	}
	if err != nil {
		return fmt.Errorf("--signature-keys: %s: %w", f.signatureKeys, err)
	}
	return nil
}

// tls returns nil unless --tls-cert is set.
func (f *reloadedFiles) tls() *tls.Config {
	if f.tlsCert == "" {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return f.certificate.Load(), nil
		},
	}
}

// probeTimeout bounds the store's answer to one probe.
const probeTimeout = 2 * time.Second

// serveHealth serves /livez, if the process answers, and /readyz, if it accepts requests
// and its store answers. Neither calls the upstream, which has its own health check.
func (p *proxy) serveHealth(stopping *atomic.Bool, failed chan<- error) (*http.Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case stopping.Load():
			writeText(w, http.StatusServiceUnavailable, "ending")
		case !p.storeAnswers(r.Context()):
			writeText(w, http.StatusServiceUnavailable, "the store of marks does not answer")
		default:
			writeText(w, http.StatusOK, "ready")
		}
	})
	return p.serveAside("health", "--health-listen", p.HealthListen, mux, failed)
}

// serveAside serves mux on a listener of its own, where no path is the upstream's.
func (p *proxy) serveAside(name, flag, address string, mux http.Handler, failed chan<- error) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("proxy: %s: %w", flag, err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ErrorLog: p.log.standard()}
	go func() { failed <- server.Serve(listener) }()
	p.log.Info(name, "address", listener.Addr().String())
	return server, nil
}

func (p *proxy) storeAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := p.store.ready(ctx); err != nil {
		p.log.Error("not ready", "error", err)
		return false
	}
	return true
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}
