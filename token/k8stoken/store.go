package k8stoken

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/httpjson"
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
	found, clock, err := s.call(ctx, method, path, json.RawMessage(encode(key, old, next)), &l)
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
	var events io.ReadCloser
	if _, _, err := s.call(ctx, http.MethodGet, "?"+query.Encode(), nil, &events); err != nil {
		return register.Entry{}, err
	}
	defer events.Close()
	var event struct {
		Type   string
		Object struct {
			lease
			Message string // of an ERROR
		}
	}
	if err := json.NewDecoder(events).Decode(&event); err != nil {
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

// List implements [register.Store]. It leaves out Leases of other programs, and copies.
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

// call sends a request, and decodes the reply or stores its stream. found is false if there
// is no such Lease, or another process has written it.
func (s *store) call(ctx context.Context, method, path string, body, reply any) (found bool, clock time.Time, err error) {
	if _, isWatch := reply.(*io.ReadCloser); !isWatch {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	req, err := httpjson.NewRequest(ctx, method, s.URL+path, body)
	var secret []byte
	if err == nil && s.TokenFile != "" {
		if secret, err = os.ReadFile(s.TokenFile); err == nil {
			req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
		}
	}
	if err == nil {
		if method == http.MethodPatch {
			req.Header.Set("Content-Type", "application/merge-patch+json")
		}
		clock, _, err = httpjson.Do(s.Client, req, reply)
	}
	var r *httpjson.Refusal
	switch {
	case err == nil:
		return true, clock, nil
	case errors.As(err, &r) && (r.Status == http.StatusConflict || r.Status == http.StatusNotFound && strings.HasPrefix(path, "/")): // else the namespace is missing
		return false, clock, nil
	}
	return false, clock, fmt.Errorf("k8stoken: %w", err)
}
