package etcdtoken

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/internal/outage"
	"github.com/fencepost/fencepost/token"
)

// store is a [register.Store] over the gateway of etcd's members, which takes JSON.
type store struct {
	Config
	current atomic.Uint64 // the endpoint in use, modulo their number
	turn    chan struct{} // is full while a caller reads or replaces token
	token   string        // of the user; empty before the first request
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
	switch {
	case err == nil:
		return clock, nil
	case isCurable(err):
		s.current.CompareAndSwap(n, n+1)
		err = fmt.Errorf("%w: %w", token.ErrUnreachable, err)
	}
	return clock, fmt.Errorf("etcdtoken: %w", err)
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
		return "", ctx.Err()
	}
	var err error
	if s.token == refused || s.token == "" { // the caller before has got none
		var reply struct{ Token string }
		_, err = s.request(ctx, endpoint+"/v3/auth/authenticate", "", object{"name": s.User, "password": s.Password}, &reply)
		s.token = reply.Token
	}
	return s.token, err
}

// request sends one request, and decodes the reply or returns its stream. clock is the
// header Date.
func (s *store) request(ctx context.Context, address, tok string, request, reply any) (clock time.Time, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return clock, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return clock, err
	}
	// A member without a leader then refuses the request at once, and ends a watch.
	req.Header.Set("Grpc-Metadata-Hasleader", "true")
	if tok != "" {
		req.Header.Set("Authorization", tok)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return clock, err
	}
	if stream, ok := reply.(*io.ReadCloser); ok && resp.StatusCode == http.StatusOK {
		*stream = resp.Body
		return clock, nil
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body) // to the end: the connection can then be used again
	switch {
	case err != nil:
	case resp.StatusCode != http.StatusOK:
		err = &refusal{resp.StatusCode, fmt.Sprintf("%s: %s: %.300s", address, resp.Status, body)}
	default:
		clock, _ = http.ParseTime(resp.Header.Get("Date"))
		err = json.Unmarshal(body, reply)
	}
	return clock, err
}

// refusal is a reply with another status than 200.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func isTokenRefused(err error) bool {
	var r *refusal
	return errors.As(err, &r) && (r.status == http.StatusUnauthorized || strings.Contains(r.text, "revision of auth store is old"))
}

// isCurable reports whether a retry can cure err.
func isCurable(err error) bool {
	var reply *refusal
	if errors.As(err, &reply) {
		return outage.IsStatus(reply.status)
	}
	return outage.Is(err)
}
