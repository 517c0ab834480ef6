// Package proxy is the command fencepost proxy: a guard in front of a service that
// cannot compare tokens itself.
//
//	command.go   all flags and their defaults; flags that exclude each other; values that are
//	             refused; sizes such as 10MiB
//	serve.go     the listeners; SIGTERM and --grace; /livez and /readyz; SIGHUP reads the
//	             signature keys and the certificate again; a second signal
//	handler.go   the path of a request, from its checks to the upstream; requests without a
//	             token; WebSockets; --max-in-flight, --wait; what ends a request that was sent
//	request.go   the state of one request; --timeout for its body and its answer; whether its
//	             body was read to the end; the status that the client gets
//	validate.go  paths that two servers could read in two ways; fields that would change the
//	             method are refused; fields that would change the path or the token are removed
//	routes.go    --resource: its errors; which route matches; which resources a request is
//	             about; a trailing slash
//	store.go     where the marks are: PostgreSQL, Redis, memory; the transaction that is open
//	             while the upstream works, and the end of its session; what /readyz checks
//	upstream.go  --upstream; forwarded fields; a write is sent once; 502 and 504, and when the
//	             outcome is unknown; a client that breaks off in its body
//	problem.go   the proxy's own answers: status and text, "Nothing was applied", Retry-After,
//	             Connection: close; which error leads to which; report-only mode
//	log.go       the line of a request: passed, refused, failed, cut off; --access-log; the
//	             resource and the token in it; "reported" in report-only mode
//	metrics.go   /metrics: the names, the outcomes and the reasons; as which outcome a request
//	             counts; errors of the store; the buckets of the duration
package proxy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencepost/fencepost/internal/cli"
)

// Cmd is the command fencepost proxy.
type Cmd struct {
	Upstream string   `required:"" placeholder:"URL" help:"The service: http:// or https://, with a path that is put in front of every other, if any."`
	Listen   string   `default:"127.0.0.1:8080" placeholder:"ADDR" help:"The address to listen on (${default})."`
	Resource []string `required:"" sep:"none" placeholder:"[ROUTE=]RESOURCE,…" help:"The resources of a request: a pattern of Go's ServeMux, and names that its wildcards fill, as /accounts/{id}=account/{id}. Without a ROUTE the name is the path: account/{id} guards /account/{id} and all paths below it. Repeatable."`

	Store                 string `env:"FENCEPOST_STORE" placeholder:"URL" help:"The server that has the marks: postgres:// or redis://. Every user of this machine can read a password in a flag: use the variable or ~/.pgpass instead."`
	Schema                string `default:"fencepost" placeholder:"NAME" help:"The schema in PostgreSQL (${default})."`
	DangerouslyMemory     bool   `help:"Keep the marks in this process. They are lost when it ends, and tokens that were refused are admitted again."`
	SignatureKeys         string `placeholder:"FILE" help:"Refuse tokens without a signature by one of these keys. Each line has an id and base64. SIGHUP reads the file again."`
	DangerouslyReportOnly bool   `help:"Compare and log tokens, and refuse nothing."`

	DangerouslyPassUnmatched bool `help:"Pass unsafe requests that no --resource matches, unguarded."`

	limits
	connectionFlags
}

// limits bound what one request may use.
type limits struct {
	Timeout           time.Duration `default:"30s" help:"How long an unsafe request may take to the end of its answer, and a safe one until its answer begins, with the time in which the client sends."`
	Wait              time.Duration `default:"5s" help:"How long a newer token waits for older requests, and a request for a slot."`
	MaxInFlight       int           `default:"32" placeholder:"N" help:"The number of guarded requests that may be in flight. With PostgreSQL each has a connection (${default})."`
	MaxBody           size          `default:"10MiB" placeholder:"SIZE" help:"The longest body of a request (${default})."`
	MaxHeaderBytes    size          `default:"64KiB" placeholder:"SIZE" help:"The longest header of a request (${default})."`
	ReadHeaderTimeout time.Duration `default:"10s" help:"How long a client may take to send a header."`
	IdleTimeout       time.Duration `default:"2m" help:"How long a connection may wait for its next request."`
	Grace             time.Duration `default:"30s" help:"How long requests in flight have to finish after SIGTERM or SIGINT."`
}

// connectionFlags are about the client, the upstream and the log.
type connectionFlags struct {
	PreserveHost bool   `help:"Send the client's Host to the upstream, not the upstream's own."`
	TLSCert      string `name:"tls-cert" placeholder:"FILE" help:"Serve TLS with this certificate. SIGHUP reads the files again."`
	TLSKey       string `name:"tls-key" placeholder:"FILE" help:"The key of --tls-cert."`
	HealthListen string `placeholder:"ADDR" help:"Serve /livez and /readyz there; off by default."`
	Metrics      string `placeholder:"ADDR" help:"Serve /metrics for Prometheus there; off by default. A port without a host is on 127.0.0.1."`
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
  fencepost proxy --upstream http://127.0.0.1:9000 --resource '/accounts/{id}=account/{id}' --metrics 9090 --health-listen 127.0.0.1:8081`
}

// Run is called by kong.
func (c *Cmd) Run(std cli.Streams) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	log := newLogger(std.Err, c.LogFormat, c.AccessLog)
	p, err := c.proxy(context.Background(), log)
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	defer p.store.close()
	return p.serve()
}

func (c *Cmd) check() error {
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

// proxy makes the handler. It returns an error if the store does not answer.
func (c *Cmd) proxy(ctx context.Context, log *logger) (*proxy, error) {
	upstream, err := parseUpstream(c.Upstream)
	if err != nil {
		return nil, err
	}
	routes, err := parseRoutes(c.Resource)
	if err != nil {
		return nil, err
	}
	files := &reloadedFiles{signatureKeys: c.SignatureKeys, tlsCert: c.TLSCert, tlsKey: c.TLSKey}
	if err := files.load(); err != nil {
		return nil, err
	}
	store, err := c.store(ctx, log)
	if err != nil {
		return nil, err
	}
	p := &proxy{Cmd: c, log: log, routes: routes, files: files, store: store, slots: make(chan struct{}, c.MaxInFlight)}
	p.upstream = p.newUpstream(upstream)
	p.guarded = p.newGuarded()
	return p, nil
}

// size is a flag's size: a whole number above 0, of bytes or with KiB or MiB.
type size int64

var _ kong.MapperValue = (*size)(nil)

// Decode is called by kong.
func (s *size) Decode(ctx *kong.DecodeContext) error {
	text := ctx.Scan.Pop().String()
	digits, scale := text, int64(1)
	for suffix, bytes := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if before, found := strings.CutSuffix(text, suffix); found {
			digits, scale = before, bytes
		}
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n <= 0 {
		return fmt.Errorf("%s: must be a whole number above 0, of bytes, KiB, MiB or GiB", text)
	}
	*s = size(n * scale)
	return nil
}
