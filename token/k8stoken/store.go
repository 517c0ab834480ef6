package k8stoken

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/outage"
	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token"
)

// store is a [register.Store] of Leases. Its URL is that of the Leases of the namespace.
type store struct{ Config }

// timeout is how long the server has to reply, except to a watch.
const timeout = 5 * time.Second

// Load implements [register.Store]. It is linearizable: without a resourceVersion, the
// server asks a majority of etcd's members, and not its cache.
func (s *store) Load(ctx context.Context, key string) (register.Entry, error) {
	var l lease
	found, clock, err := s.call(ctx, http.MethodGet, "/"+name(key), nil, &l)
	if err != nil || !found {
		return register.Entry{Clock: clock}, err
	}
	return l.entry(clock)
}

// Swap implements [register.Store]. A merge patch leaves what other programs have written.
func (s *store) Swap(ctx context.Context, key, old string, next register.Record) (register.Entry, bool, error) {
	method, path := http.MethodPatch, "/"+name(key)
	if old == "" {
		method, path = http.MethodPost, ""
	}
	var l lease
	found, clock, err := s.call(ctx, method, path, encode(key, old, next), &l)
	switch {
	case err != nil:
		return register.Entry{}, false, err
	case !found:
		e, err := s.Load(ctx, key)
		return e, false, err
	}
	return register.Entry{Record: next, Version: l.Metadata.ResourceVersion, Clock: clock}, true, nil
}

// Watch implements [register.Store]. If the events since seen were compacted, the server
// replies 410, or sends an event of the type ERROR.
func (s *store) Watch(ctx context.Context, key, seen string) (register.Entry, error) {
	query := url.Values{"watch": {"1"}, "fieldSelector": {"metadata.name=" + name(key)}, "resourceVersion": {seen}}
	reply, err := s.send(ctx, http.MethodGet, "?"+query.Encode(), nil)
	if err != nil {
		return register.Entry{}, err
	}
	defer reply.Body.Close()
	var event struct {
		Type   string
		Object struct {
			lease
			Message string // of an ERROR
		}
	}
	if err := json.NewDecoder(reply.Body).Decode(&event); err != nil {
		return register.Entry{}, fmt.Errorf("k8stoken: the watch has ended: %w", err)
	}
	switch event.Type {
	case "ADDED", "MODIFIED":
		return event.Object.entry(time.Time{})
	case "DELETED":
		return register.Entry{}, nil
	}
	return register.Entry{}, fmt.Errorf("k8stoken: the watch has ended: %s: %s", event.Type, event.Object.Message)
}

// List implements [register.Lister]. It leaves out Leases of other programs, and copies.
func (s *store) List(ctx context.Context, prefix string, visit func(string, register.Entry) bool) error {
	for next := ""; ; {
		var page struct {
			Metadata struct{ Continue string }
			Items    []lease
		}
		_, clock, err := s.call(ctx, http.MethodGet, "?"+url.Values{"limit": {"500"}, "continue": {next}}.Encode(), nil, &page)
		if err != nil {
			return err
		}
		for _, l := range page.Items {
			key := l.Metadata.Annotations[resourceAnnotation]
			if name(key) != l.Metadata.Name || !strings.HasPrefix(key, prefix) {
				continue
			}
			e, err := l.entry(clock)
			if err != nil || !visit(key, e) {
				return err
			}
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
}

// call sends a request and decodes the reply. found is false if there is no such Lease, or
// another process has written it. clock is the header Date.
func (s *store) call(ctx context.Context, method, path string, body []byte, into any) (found bool, clock time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reply, err := s.send(ctx, method, path, body)
	if err != nil {
		return false, clock, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body) // to the end: the connection can then be used again
	if err != nil {
		return false, clock, fmt.Errorf("k8stoken: %w: %w", token.ErrUnreachable, err)
	}
	clock, _ = http.ParseTime(reply.Header.Get("Date"))
	if found = reply.StatusCode < 300; found {
		if err = json.Unmarshal(text, into); err != nil {
			err = fmt.Errorf("k8stoken: %w: %.300s", err, text)
		}
	}
	return found, clock, err
}

// send returns the reply to a request: a success, a conflict, or that there is no such Lease.
func (s *store) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(body))
	var secret []byte
	if err == nil && s.TokenFile != "" {
		secret, err = os.ReadFile(s.TokenFile)
	}
	if err != nil {
		return nil, fmt.Errorf("k8stoken: %w", err)
	}
	if s.TokenFile != "" {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	reply, err := s.Client.Do(req)
	curable := outage.Is(err)
	if err == nil {
		status := reply.StatusCode
		missing := status == http.StatusNotFound && method != http.MethodPost // else the namespace is
		if status < 300 || status == http.StatusConflict || missing {
			return reply, nil
		}
		err = refusal(reply)
		curable = outage.IsStatus(status) // 500: its etcd has no leader
	}
	if curable {
		err = fmt.Errorf("%w: %w", token.ErrUnreachable, err)
	}
	return nil, fmt.Errorf("k8stoken: %w", err)
}

// refusal returns the error of a reply. Its body is an object of the kind Status, except
// from a proxy.
func refusal(reply *http.Response) error {
	defer reply.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(reply.Body, 1<<20))
	var status struct{ Message string }
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = fmt.Sprintf("%.300s", text)
	}
	return fmt.Errorf("%s %s: %s: %s", reply.Request.Method, reply.Request.URL.Path, reply.Status, status.Message)
}
