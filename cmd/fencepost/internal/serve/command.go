// Package serve is the command fencepost serve: a lock service over HTTP.
//
// command.go has the flags, the listener, signals and the end; service.go the routes, /metrics,
// and the files that SIGHUP reads again; page.go the page for operators.
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
	"os/signal"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/usage"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/token/httptoken"
)

// Cmd is the command fencepost serve.
type Cmd struct {
	connect.Locks
	Memory    bool   `server:"one" help:"Keep the locks in this process. They end with it."`
	KeyPrefix string `env:"FENCEPOST_PREFIX" placeholder:"PREFIX" help:"The prefix of the keys in Redis or etcd, by default fencepost."`

	Listen  usage.Address `default:"127.0.0.1:8090" placeholder:"ADDR" help:"The address to listen on (${default}). A port alone is on 127.0.0.1; 0.0.0.0:8090 is on every interface, and needs --rights."`
	TLSCert string        `name:"tls-cert" placeholder:"FILE" help:"Serve TLS with this certificate and its chain, in PEM."`
	TLSKey  string        `name:"tls-key" placeholder:"FILE" help:"The key of --tls-cert, in PEM."`

	Rights        string   `placeholder:"FILE" help:"Accept only the bearer tokens of this file. Each line has a name, the SHA-256 of a token, its rights (acquire, read, break), and prefixes of locks."`
	SignatureKeys string   `placeholder:"FILE" help:"Sign the fencing tokens with the first of these keys, for services that check signatures. Each line has an id and base64."`
	Guard         []string `sep:"none" placeholder:"URL" help:"A server with marks through which holders write: the URL of a PostgreSQL or a Redis, or the DSN of a MySQL. A break raises the marks of all of them. Repeatable."`

	MaxWaiters int           `default:"10000" placeholder:"N" help:"How many requests of one bearer token may wait at once; without --rights, how many in all (${default})."`
	Drain      time.Duration `default:"5s" help:"How long after SIGTERM requests are still accepted while /readyz fails, so that a balancer sends them elsewhere."`
	LogFormat  string        `default:"text" enum:"text,json" help:"How to log, text or json."`

	DangerouslyOpen bool `help:"Listen on the network without --rights: every client that can connect may acquire, read and break every lock."`
}

// Help is printed by --help below the usage line.
func (Cmd) Help() string {
	return `The API is that of package httptoken, as /openapi.json describes it; / is a page for operators, and a browser asks for the bearer ` +
		`token as its password. Replicas keep no state: start any number over one server. SIGHUP reads the certificate, the rights and the keys ` +
		`again. After SIGTERM the process ends when its waiters have been answered, which takes up to a minute; a second signal ends it at once. ` +
		`docs/serve.md is about running it.

Examples:
  fencepost serve --memory
  FENCEPOST_REDIS_URL=redis://:secret@locks:6379 fencepost serve --listen 0.0.0.0:8090 --rights rights --tls-cert cert.pem --tls-key key.pem
  fencepost serve --postgres postgres://locks@db/locks --guard postgres://operator@db/shop`
}

// Run is called by kong.
func (c *Cmd) Run(std cli.Streams) error {
	var handler slog.Handler = slog.NewTextHandler(std.Err, nil)
	if c.LogFormat == "json" {
		handler = slog.NewJSONHandler(std.Err, nil)
	}
	slog.SetDefault(slog.New(handler)) // for httptoken's errors
	s, err := c.open(context.Background())
	if err == nil {
		defer s.close()
		err = s.serve()
	}
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// check returns an error for flags that would open the locks to the network.
func (c *Cmd) check() error {
	host, _, _ := net.SplitHostPort(string(c.Listen))
	address, err := netip.ParseAddr(host)
	local := host == "localhost" || err == nil && address.IsLoopback()
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key need each other")
	case c.MaxWaiters < 1:
		return fmt.Errorf("--max-waiters: %d: must be above 0", c.MaxWaiters)
	case !local && c.Rights == "" && !c.DangerouslyOpen:
		return fmt.Errorf("--listen: %s can be reached from other machines: give --rights, or --dangerously-open", c.Listen)
	case !local && c.TLSCert == "":
		slog.Warn("without --tls-cert, bearer tokens and requests can be read on the network, unless a proxy in front has TLS")
	}
	return nil
}

// serve returns when a signal has ended the service, or its listener has failed.
func (s *service) serve() error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)

	listener, err := net.Listen("tcp", string(s.Listen))
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{
		Handler: s, Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, WriteTimeout: 2 * httptoken.MaxWait, MaxHeaderBytes: 64 << 10,
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	failed := make(chan error, 1)
	if s.TLSCert == "" {
		go func() { failed <- server.Serve(listener) }()
	} else {
		server.TLSConfig = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil }}
		go func() { failed <- server.ServeTLS(listener, "", "") }()
	}
	slog.Info("listen", "address", listener.Addr().String())
	for {
		select {
		case err := <-failed:
			return errors.Join(err, server.Close())
		case <-reload:
			if err := s.load(); err != nil {
				slog.Error("a file was not read again: the old one counts", "error", err)
				continue
			}
			slog.Info("the files were read again")
		case sig := <-signals:
			signal.Stop(signals) // a second one ends the process
			return s.shutdown(server, sig)
		}
	}
}

// shutdown ends the service when the requests in flight are answered. A request that waits for
// a lock keeps its place until it is granted the lock or its wait ends: to answer it now would
// lose the place, since an issuer's Wait that ends leaves the queue.
func (s *service) shutdown(server *http.Server, sig os.Signal) error {
	s.stopping.Store(true)
	slog.Info("ending", "signal", sig.String())
	if sig == syscall.SIGTERM {
		time.Sleep(s.Drain)
	}
	ctx, cancel := context.WithTimeout(context.Background(), server.WriteTimeout)
	defer cancel()
	if server.Shutdown(ctx) != nil { // ctx has ended
		slog.Error("ended before its requests did")
		return errors.Join(cli.ErrNo, server.Close())
	}
	slog.Info("ended")
	return nil
}
