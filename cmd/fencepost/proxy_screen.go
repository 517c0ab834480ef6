package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/fencepost/fencepost/httpguard"
)

// screen refuses what would make the upstream take a request for another one
// than was judged.
func (p *proxy) screen(r *http.Request) error {
	if r.Method == http.MethodConnect {
		return errors.New("the method CONNECT is for tunnels")
	}
	for name := range r.Header {
		switch plainName(name) {
		case "x-http-method-override", "x-http-method", "x-method-override":
			// Taking it off would answer a DELETE in a GET's clothes with 200.
			return fmt.Errorf("the field %s would change the method: send the request with that method", name)
		}
	}
	return nil
}

// strip takes off what would change the path, or what programs behind a CGI
// interface read as the field of tokens itself.
func strip(header http.Header) {
	for name := range header {
		switch plainName(name) {
		case "x-original-url", "x-rewrite-url":
			delete(header, name)
		case strings.ToLower(httpguard.Header):
			if name != httpguard.Header {
				delete(header, name)
			}
		}
	}
}

// plainName is what CGI and its heirs (WSGI, Rack, PHP) make of a field's name:
// to them - and _ are the same.
func plainName(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}
