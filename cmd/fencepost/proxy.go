package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type proxyCmd struct {
	Upstream string   `required:"" placeholder:"URL" help:"The service behind: http:// or https://, with a path that is put before every other, if any."`
	Listen   string   `default:"127.0.0.1:8080" placeholder:"ADDR" help:"Where to listen (${default})."`
	Resource []string `required:"" sep:"none" placeholder:"[ROUTE=]RESOURCE,…" help:"Which requests are about which resources: a pattern of Go's ServeMux and names that its wildcards fill, '/accounts/{id}=account/{id}'. Without a ROUTE the name is the path: account/{id} guards /account/{id} and all below it. Repeatable."`

	Store              string `env:"FENCEPOST_STORE" placeholder:"URL" help:"Where marks are kept: postgres:// or redis://. Every user of this machine can read a password that stands in a flag: set the variable instead, or keep it in ~/.pgpass."`
	Schema             string `default:"fencepost" placeholder:"NAME" help:"The PostgreSQL schema, if it is not called fencepost."`
	DangerouslyMemory  bool   `help:"Keep the marks in this process: its end forgets them, and admits what they refused."`
	SealKeys           string `placeholder:"FILE" help:"Refuse tokens without a seal of one of these keys: a line each, an id and base64. SIGHUP reads the file again."`
	DangerouslyObserve bool   `help:"Judge and log, and refuse nothing."`

	DangerouslyPassUnmatched bool `help:"Let unsafe requests through that no --resource matches, unguarded."`

	proxyLimits
	proxyEdge
}

// proxyLimits bound what one request may take.
type proxyLimits struct {
	Timeout           time.Duration `default:"30s" help:"How long the upstream may work on an unsafe request, and until it answers a safe one (${default})."`
	Wait              time.Duration `default:"5s" help:"How long a newer token waits for older requests, and a request for a place among those in flight (${default})."`
	MaxInFlight       int           `default:"32" placeholder:"N" help:"How many guarded requests may be in flight; with PostgreSQL each has a connection (${default})."`
	MaxBody           size          `default:"10MiB" placeholder:"SIZE" help:"The longest body of a request (${default})."`
	MaxHeaderBytes    size          `default:"64KiB" placeholder:"SIZE" help:"The longest header of a request (${default})."`
	ReadHeaderTimeout time.Duration `default:"10s" help:"How long a client may take to send a header (${default})."`
	IdleTimeout       time.Duration `default:"2m" help:"How long a connection may wait for its next request (${default})."`
	Grace             time.Duration `default:"30s" help:"How long requests in flight have to finish after SIGTERM or SIGINT (${default})."`
}

// proxyEdge is what the proxy is to those on either side.
type proxyEdge struct {
	PreserveHost bool   `help:"Send the client's Host to the upstream, not the upstream's own."`
	TLSCert      string `name:"tls-cert" placeholder:"FILE" help:"Serve TLS with this certificate. SIGHUP reads the files again."`
	TLSKey       string `name:"tls-key" placeholder:"FILE" help:"The key of --tls-cert."`
	HealthListen string `placeholder:"ADDR" help:"Answer /livez and /readyz there; off by default."`
	LogFormat    string `default:"text" enum:"text,json" help:"How to log, text or json (${default})."`
	AccessLog    bool   `help:"Log every request, not only those that are refused or fail."`
}

// Help is what --help says besides the flags.
func (proxyCmd) Help() string {
	return `A reverse proxy for a service that cannot compare tokens itself. Unsafe requests need a token of their resource in the field ` +
		`Fencing-Token; those with a stale one never reach the service. With PostgreSQL several proxies may stand before one service, with ` +
		`Redis one. SIGTERM ends it when the requests in flight have been answered; a second one at once. docs/proxy.md says what it cannot do.`
}

// Run is called by kong.
func (c *proxyCmd) Run(std streams) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	log := newProxyLog(std.err, c.LogFormat, c.AccessLog)
	p, err := c.proxy(context.Background(), log)
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	defer p.store.close()
	return p.serve()
}

func (c *proxyCmd) check() error {
	switch {
	case (c.Store == "") == !c.DangerouslyMemory:
		return errors.New("give --store=URL (or set FENCEPOST_STORE), or else --dangerously-memory")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key belong together")
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"timeout", c.Timeout}, {"wait", c.Wait}, {"read-header-timeout", c.ReadHeaderTimeout},
		{"idle-timeout", c.IdleTimeout}, {"grace", c.Grace},
	} {
		if d.value <= 0 {
			return fmt.Errorf("--%s: %s: must be above 0", d.flag, d.value)
		}
	}
	if c.MaxInFlight <= 0 {
		return fmt.Errorf("--max-in-flight: %d: must be above 0", c.MaxInFlight)
	}
	return nil
}

// proxy makes what serves, and asks the store whether it is there.
func (c *proxyCmd) proxy(ctx context.Context, log *proxyLog) (*proxy, error) {
	upstream, err := parseUpstream(c.Upstream)
	if err != nil {
		return nil, err
	}
	routes, err := parseRoutes(c.Resource)
	if err != nil {
		return nil, err
	}
	files := &proxyFiles{sealKeys: c.SealKeys, tlsCert: c.TLSCert, tlsKey: c.TLSKey}
	if err := files.load(); err != nil {
		return nil, err
	}
	store, err := c.store(ctx, log)
	if err != nil {
		return nil, err
	}
	p := &proxy{proxyCmd: c, log: log, routes: routes, files: files, store: store, places: make(chan struct{}, c.MaxInFlight)}
	p.upstream = p.newUpstream(upstream)
	p.guarded = p.newGuarded()
	return p, nil
}
