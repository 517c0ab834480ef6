package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// serve returns when a signal has ended the proxy, or a listener is lost.
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
	var running inFlight
	server := p.server(running.count(p))
	failed := make(chan error, 2)
	var leaving atomic.Bool
	if p.HealthListen != "" {
		health, err := p.serveHealth(&leaving, failed)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		defer health.Close()
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
			leaving.Store(true)
			p.log.Info("ending", "signal", s.String(), "in_flight", running.now())
			return p.leave(server, &running)
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

// reload keeps what there is where the files cannot be read.
func (p *proxy) reload() {
	if err := p.files.load(); err != nil {
		p.log.Error("files were not read again: the old ones stay", "error", err)
		return
	}
	p.log.Info("files were read again")
}

// leave waits until the requests in flight are answered, for as long as --grace
// says. Connections that have become something else are among them.
func (p *proxy) leave(server *http.Server, running *inFlight) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.Grace)
	defer cancel()
	err := server.Shutdown(ctx)
	if err == nil {
		err = running.wait(ctx)
	}
	if err == nil {
		p.log.Info("ended")
		return nil
	}
	p.log.Error("ended before its requests did", "cut_off", running.now())
	return errors.Join(errNo, server.Close())
}
