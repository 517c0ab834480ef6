package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/fencepost/fencepost/token/seal"
)

// proxyFiles are what SIGHUP reads again.
type proxyFiles struct {
	sealKeys, tlsCert, tlsKey string

	seals       *seal.Ring // nil: seals are not looked at
	certificate atomic.Pointer[tls.Certificate]
}

// load reads all files, and changes something only where all can be read.
func (f *proxyFiles) load() error {
	var keys []seal.Key
	if f.sealKeys != "" {
		text, err := os.ReadFile(f.sealKeys)
		if err == nil {
			keys, err = seal.ParseKeys(string(text))
		}
		if err != nil {
			return fmt.Errorf("--seal-keys: %w", err)
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

func (f *proxyFiles) replace(keys []seal.Key) (err error) {
	switch {
	case f.sealKeys == "":
		return nil
	case f.seals == nil:
		f.seals, err = seal.New(keys...)
	default:
		err = f.seals.Replace(keys...)
	}
	if err != nil {
		return fmt.Errorf("--seal-keys: %s: %w", f.sealKeys, err)
	}
	return nil
}

// tls returns nil where none is asked for.
func (f *proxyFiles) tls() *tls.Config {
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
