package etcdtoken

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/internal/register/httpjson"
	"github.com/fencepost/fencepost/token"
)

// store is a [register.Store] over the gateway of etcd's members, which takes JSON.
type store struct {
	Config
	current atomic.Uint64 // the endpoint in use, modulo their number
	turn    chan struct{} // is full while a caller reads or replaces token
	token   string        // of the user; empty before the first request
	streams sync.Map      // those that wait for the next Watch, by key and version
	idle    time.Duration // how long they wait
}

// timeout is how long an endpoint has to reply, except to a watch.
const timeout = 5 * time.Second

// post sends a request. If an endpoint cannot be reached, the next one is asked if repeat
// is set, or if nothing was sent.
func (s *store) post(ctx context.Context, path string, repeat bool, request, reply any) (clock time.Time, err error) {
	for range max(len(s.Endpoints), 1) {
		within, cancel := context.WithTimeout(ctx, timeout)
		clock, err = s.send(within, path, request, reply)
		cancel()
		var unsent *net.OpError
		again := repeat || errors.As(err, &unsent) && unsent.Op == "dial"
		if !errors.Is(err, token.ErrUnreachable) || ctx.Err() != nil || !again {
			break
		}
	}
	return clock, err
}

// send sends a request to the endpoint in use. If that cannot be reached, later requests go
// to the next one.
func (s *store) send(ctx context.Context, path string, request, reply any) (clock time.Time, err error) {
	if len(s.Endpoints) == 0 {
		return clock, errors.New("etcdtoken: the Config has no Endpoints")
	}
	n := s.current.Load()
	endpoint := s.Endpoints[n%uint64(len(s.Endpoints))]
	tok, err := s.userToken(ctx, endpoint, "")
	if err == nil {
		clock, err = s.request(ctx, endpoint+path, tok, request, reply)
	}
	if tok != "" && isTokenRefused(err) { // the request was not executed
		if tok, err = s.userToken(ctx, endpoint, tok); err == nil {
			clock, err = s.request(ctx, endpoint+path, tok, request, reply)
		}
	}
	if errors.Is(err, token.ErrUnreachable) {
		s.current.CompareAndSwap(n, n+1)
	}
	if err != nil {
		err = fmt.Errorf("etcdtoken: %w", err)
	}
	return clock, err
}

// userToken returns the user's token. If there is none, or it was refused, one caller asks
// for a new one while the others wait: a check of a password is slow.
func (s *store) userToken(ctx context.Context, endpoint, refused string) (string, error) {
	if s.User == "" {
		return "", nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("%w: %w", token.ErrUnreachable, ctx.Err())
	}
	var err error
	if s.token == refused || s.token == "" { // the caller before has got none
		var reply struct{ Token string }
		_, err = s.request(ctx, endpoint+"/v3/auth/authenticate", "", object{"name": s.User, "password": s.Password}, &reply)
		s.token = reply.Token
	}
	return s.token, err
}

// request sends one request, and decodes the reply or stores its stream.
func (s *store) request(ctx context.Context, address, tok string, request, reply any) (time.Time, error) {
	req, err := httpjson.NewRequest(ctx, http.MethodPost, address, request)
	if err != nil {
		return time.Time{}, err
	}
	// A member without a leader then refuses the request at once, and ends a watch.
	req.Header.Set("Grpc-Metadata-Hasleader", "true")
	if tok != "" {
		req.Header.Set("Authorization", tok)
	}
	clock, _, err := httpjson.Do(s.Client, req, reply)
	return clock, err
}

func isTokenRefused(err error) bool {
	var r *httpjson.Refusal
	return errors.As(err, &r) && (r.Status == http.StatusUnauthorized || strings.Contains(r.Body, "revision of auth store is old"))
}
