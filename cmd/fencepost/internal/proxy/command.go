// Package proxy is the command fencepost proxy: a guard in front of a service that cannot
// compare tokens itself.
//
//	command.go   the flags; the listeners; SIGTERM, and SIGHUP; /livez, /readyz and /metrics
//	handler.go   the path of a request, and its line in the log; --wait and the client's body
//	rules.go     requests that two servers could read in two ways; the routes of --resource
//	store.go     where the marks are; the transaction that is open while the service works
//	upstream.go  a write is sent once; --timeout; 502 and 504, and when the outcome is unknown
package proxy

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/usage"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/internal/cli"
)

// Cmd is the command fencepost proxy.
type Cmd struct {
	Upstream *url.URL      `required:"" placeholder:"URL" help:"The service: http:// or https://, with a path that is put in front of every other, if any."`
	Listen   usage.Address `default:"127.0.0.1:8080" placeholder:"ADDR" help:"The address to listen on (${default}). A port alone is on 127.0.0.1; 0.0.0.0:8080 is on every interface."`
	Admin    usage.Address `placeholder:"ADDR" help:"Serve /livez, /readyz and /metrics there, an address like that of --listen; off by default."`
	Resource []string      `required:"" sep:"none" placeholder:"[ROUTE=]RESOURCE,…" help:"The resources of a request: a pattern of Go's ServeMux, and names that its wildcards fill, as /accounts/{id}=account/{id}. Without a ROUTE the name is the path: account/{id} guards /account/{id} and all paths below it. Repeatable."`

	Store             string `server:"one" env:"FENCEPOST_STORE" placeholder:"URL" help:"The server that has the marks: postgres:// or redis://. Every user of this machine can read a password in a flag: use the variable or ~/.pgpass instead."`
	Schema            string `default:"fencepost" placeholder:"NAME" help:"The schema in PostgreSQL (${default})."`
	DangerouslyMemory bool   `server:"one" help:"Keep the marks in this process. They are lost when it ends, and tokens that were refused are admitted again."`
	SignatureKeys     string `placeholder:"FILE" help:"Refuse tokens without a signature by one of these keys. Each line has an id and base64. SIGHUP reads the file again."`

	DangerouslyReportOnly    bool `help:"Compare and log tokens, and refuse nothing."`
	DangerouslyPassUnmatched bool `help:"Pass unsafe requests that no --resource matches, unguarded."`

	Timeout     time.Duration `default:"30s" help:"How long a client may take to send the body of a guarded request, and after that the service to answer: an unsafe request to the end of its answer, a safe one until its answer begins."`
	Wait        time.Duration `default:"5s" help:"How long a newer token waits for older requests, and a request for a slot."`
	MaxInFlight int           `default:"32" placeholder:"N" help:"The number of guarded requests that may be in flight. With PostgreSQL each has a connection (${default})."`
	MaxBody     int64         `default:"10485760" placeholder:"BYTES" help:"The longest body of a guarded request, which is kept in memory (${default})."`

	PreserveHost bool   `help:"Send the client's Host to the upstream, not the upstream's own."`
	LogFormat    string `default:"text" enum:"text,json" help:"How to log, text or json."`
	AccessLog    bool   `help:"Log every request, not only those that are refused or fail."`
}

// Help is printed by --help below the usage line.
func (Cmd) Help() string {
	return `A reverse proxy for a service that cannot compare tokens itself. Unsafe requests need a token of their resource in the field ` +
		`Fencing-Token. Requests with a stale token never reach the service. With PostgreSQL several proxies may run in front of one service, ` +
		`with Redis one. After SIGTERM it ends when the requests in flight are answered; a second signal ends it at once. ` +
		`docs/proxy.md lists what it cannot do.

Examples:
  fencepost proxy --upstream http://127.0.0.1:9000 --store postgres://proxy@db/marks --resource 'account/{id}'
  FENCEPOST_STORE=redis://:secret@marks:6379 fencepost proxy --upstream http://127.0.0.1:9000 --resource '/accounts/{id}=account/{id}' --admin 127.0.0.1:8081`
}

// Run is called by kong.
func (c *Cmd) Run(std cli.Streams) error {
	var handler slog.Handler = slog.NewTextHandler(std.Err, nil)
	if c.LogFormat == "json" {
		handler = slog.NewJSONHandler(std.Err, nil)
	}
	slog.SetDefault(slog.New(handler)) // for httpguard's errors
	p, err := c.proxy(context.Background(), slog.Default())
	if err == nil {
		defer p.store.close()
		err = p.serve()
	}
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

// proxy makes the handler. It returns an error if a flag has a wrong value, or if the store
// does not answer.
func (c *Cmd) proxy(ctx context.Context, log *slog.Logger) (*proxy, error) {
	switch u := c.Upstream; {
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("--upstream: want http:// or https://, a host and a path, and nothing else")
	case min(c.Timeout, c.Wait) <= 0, c.MaxInFlight <= 0, c.MaxBody <= 0:
		return nil, errors.New("--timeout, --wait, --max-in-flight and --max-body must be above 0")
	}
	p := &proxy{Cmd: c, log: log, routes: http.NewServeMux(), slots: make(chan struct{}, c.MaxInFlight)}
	for _, flag := range c.Resource {
		if err := addRoute(p.routes, flag); err != nil {
			return nil, fmt.Errorf("--resource: %s: %w", flag, err)
		}
	}
	if c.SignatureKeys != "" {
		p.keyring = new(signature.Keyring)
		if err := p.loadKeys(); err != nil {
			return nil, err
		}
	}
	var err error
	if p.store, err = p.newStore(ctx); err != nil {
		return nil, err
	}
	for _, answer := range []string{"service", "400", "403", "408", "412", "413", "428", "500", "502", "503", "504", "left", "cut"} {
		p.requests.Add(answer, 0)
	}
	m := httpguard.Middleware{
		Keyring: p.keyring, InFlight: new(httpguard.InFlight), WaitTimeout: c.Wait,
		DangerouslyReportOnly: c.DangerouslyReportOnly, Hooks: guard.Hooks{Refused: record, Reported: p.reported},
		Resources: func(r *http.Request) ([]string, error) {
			st := stateOf(r.Context())
			if len(st.resources) == 0 {
				return nil, fmt.Errorf("no --resource matches %s %s: name its resource, or take it off the proxy", r.Method, r.URL.EscapedPath())
			}
			return st.resources, nil
		},
	}
	if c.DangerouslyReportOnly {
		m.Store = p.store
	}
	p.guarded, p.upstream = m.Wrap(http.HandlerFunc(p.admitted)), p.newUpstream()
	return p, nil
}

// loadKeys reads the file of --signature-keys. If it returns an error the keys stay.
func (p *proxy) loadKeys() error {
	text, err := os.ReadFile(p.SignatureKeys)
	if err != nil {
		return fmt.Errorf("--signature-keys: %w", err)
	}
	keys, err := signature.ParseKeys(string(text))
	if err == nil {
		err = p.keyring.Replace(keys...)
	}
	if err != nil {
		return fmt.Errorf("--signature-keys: %s: %w", p.SignatureKeys, err)
	}
	return nil
}

// serve returns when a signal has ended the proxy, or a listener has failed.
func (p *proxy) serve() error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)

	failed := make(chan error, 2)
	server := &http.Server{Handler: p, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	if err := p.listen("listen", p.Listen, server, failed); err != nil {
		return err
	}
	if p.Admin != "" {
		if err := p.listen("admin", p.Admin, &http.Server{Handler: p.admin()}, failed); err != nil {
			return err
		}
	}
	for {
		select {
		case err := <-failed:
			return errors.Join(err, server.Close())
		case <-reload:
			if p.keyring == nil {
				continue
			}
			if err := p.loadKeys(); err != nil {
				p.log.Error("the keys were not read again: the old ones stay", "error", err)
				continue
			}
			p.log.Info("the keys were read again")
		case s := <-signals:
			signal.Stop(signals) // a second one ends the process
			p.stopping.Store(true)
			p.log.Info("ending", "signal", s.String(), "in_flight", p.running.Load())
			return p.shutdown(server)
		}
	}
}

// listen serves on a listener of its own. The channel gets why that has ended.
func (p *proxy) listen(flag string, address usage.Address, server *http.Server, failed chan<- error) error {
	listener, err := net.Listen("tcp", string(address))
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	server.ReadHeaderTimeout, server.IdleTimeout, server.MaxHeaderBytes = 10*time.Second, 2*time.Minute, 64<<10
	server.ErrorLog = slog.NewLogLogger(p.log.Handler(), slog.LevelWarn)
	go func() { failed <- server.Serve(listener) }()
	p.log.Info(flag, "address", listener.Addr().String())
	return nil
}

// shutdown waits until the requests in flight are answered, and for as long as they may take
// at most.
func (p *proxy) shutdown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*(p.Wait+p.Timeout)+responseTime)
	defer cancel()
	if server.Shutdown(ctx) != nil { // ctx has ended
		p.log.Error("ended before its requests did", "cut_off", p.running.Load())
		return errors.Join(cli.ErrNo, server.Close())
	}
	p.log.Info("ended")
	return nil
}

// admin serves /livez, if the process answers, /readyz, if it accepts requests and its store
// answers, and /metrics. None calls the upstream, which has its own health check.
func (p *proxy) admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if p.stopping.Load() {
			http.Error(w, "ending", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := p.store.ready(ctx); err != nil {
			p.log.Error("not ready", "error", err)
			http.Error(w, "the store of marks does not answer", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /metrics", p.metrics)
	return mux
}

// metrics writes Prometheus' text format: a library for five numbers would be a dependency of
// every program that imports this module.
func (p *proxy) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	const requests = "fencepost_proxy_requests_total"
	fmt.Fprintf(w, "# HELP %s Requests that have ended, by answer.\n# TYPE %s counter\n", requests, requests)
	p.requests.Do(func(kv expvar.KeyValue) { fmt.Fprintf(w, "%s{answer=%q} %s\n", requests, kv.Key, kv.Value) })
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"reported_total", "counter", "Refusals that report-only mode has logged and not made.", p.reports.Load()},
		{"store_errors_total", "counter", "Errors of the store of marks.", p.storeErrors.Load()},
		{"slots", "gauge", "The value of --max-in-flight.", int64(cap(p.slots))},
		{"slots_in_use", "gauge", "Guarded requests in flight.", int64(len(p.slots))},
	} {
		fmt.Fprintf(w, "# HELP fencepost_proxy_%[1]s %[2]s\n# TYPE fencepost_proxy_%[1]s %[3]s\nfencepost_proxy_%[1]s %[4]d\n", m.name, m.help, m.kind, m.value)
	}
}
