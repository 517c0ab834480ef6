package consultoken

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/internal/register/httpjson"
)

// store is a [register.Store] over the HTTP API of an agent. The version of a record is its
// ModifyIndex. It repeats if a snapshot is restored into new servers, so the Issuer loads first.
type store struct{ Config }

const (
	// timeout is how long the agent has to reply. In an election, a server replies when
	// there is a leader, or after seven seconds (rpc_hold_timeout).
	timeout = 10 * time.Second
	// block is how long a blocking query waits for a change. Consul adds up to a sixteenth.
	block = time.Minute
)

type pair struct {
	Key         string
	Value       []byte
	ModifyIndex uint64
}

func (p pair) entry(clock time.Time) (register.Entry, error) {
	e := register.Entry{Clock: clock, Version: strconv.FormatUint(p.ModifyIndex, 10)}
	if err := json.Unmarshal(p.Value, &e.Record); err != nil {
		return e, fmt.Errorf("consultoken: the key %q has no record: %w", p.Key, err)
	}
	return e, nil
}

// Load implements [register.Store]. It reads in Consul's default mode: the leader replies,
// without a round trip to a majority. A leader that has been replaced may reply with an old
// record until its leader lease ends; a Swap from that record fails.
func (s *store) Load(ctx context.Context, key string) (register.Entry, error) {
	e, _, err := s.get(ctx, key, "")
	return e, err
}

// Watch implements [register.Store] by blocking queries. One also replies without a change:
// after block, or with the record of before if a snapshot is restored. The index may then be
// lower, and a query with the old one would block. So the next query does not block.
func (s *store) Watch(ctx context.Context, key, seen string) (register.Entry, error) {
	for index := seen; ; {
		e, next, err := s.get(ctx, key, index)
		switch {
		case err != nil || e.Version != seen:
			return e, err
		case index != "":
			index = ""
		case next == "":
			return e, errors.New("consultoken: a reply has no X-Consul-Index")
		default:
			index = next
		}
	}
}

// get returns the record of key. If index is not empty, the agent replies when the index of
// the record is above it, or after a time.
func (s *store) get(ctx context.Context, key, index string) (e register.Entry, next string, err error) {
	var query url.Values
	within := timeout
	if index != "" {
		query = url.Values{"index": {index}, "wait": {block.String()}}
		within += block + block/16
	}
	var pairs []pair
	clock, header, err := s.call(ctx, within, http.MethodGet, s.path(key), query, nil, &pairs)
	if err != nil {
		return e, "", err
	}
	next, e.Clock = header.Get("X-Consul-Index"), clock
	if len(pairs) > 0 {
		e, err = pairs[0].entry(e.Clock)
	}
	return e, next, err
}

// Swap implements [register.Store]. It is a transaction of one operation, since the reply
// to a PUT with "cas" does not have the new index. Consul keeps the index of a value that is
// written again; the Issuer writes no record that is equal to the one before.
func (s *store) Swap(ctx context.Context, key, old string, next register.Record) (register.Entry, bool, error) {
	value, _ := json.Marshal(next)             // strings and integers: it does not fail
	index, _ := strconv.ParseUint(old, 10, 64) // 0: there is no such key
	type object map[string]any
	body := []object{{"KV": object{"Verb": "cas", "Key": s.Prefix + register.Name(key), "Value": value, "Index": index}}}
	var reply struct{ Results []struct{ KV pair } }
	clock, _, err := s.call(ctx, timeout, http.MethodPut, "/v1/txn", nil, body, &reply)
	if err != nil {
		return register.Entry{}, false, err
	}
	if len(reply.Results) != 1 {
		e, err := s.Load(ctx, key)
		return e, false, err
	}
	return register.Entry{Record: next, Version: strconv.FormatUint(reply.Results[0].KV.ModifyIndex, 10), Clock: clock}, true, nil
}

// List implements [register.Store]. Consul has no pages.
func (s *store) List(ctx context.Context, prefix string, visit func(string, register.Entry) bool) error {
	var pairs []pair
	clock, _, err := s.call(ctx, timeout, http.MethodGet, s.path(prefix), url.Values{"recurse": {""}}, nil, &pairs)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		key, ok := register.Key(strings.TrimPrefix(p.Key, s.Prefix))
		if !ok {
			return fmt.Errorf("consultoken: the key %q is not an issuer's", p.Key)
		}
		if e, err := p.entry(clock); err != nil || !visit(key, e) {
			return err
		}
	}
	return nil
}

func (s *store) path(key string) string {
	return (&url.URL{Path: "/v1/kv/" + s.Prefix + register.Name(key)}).EscapedPath()
}

// call sends a request, and decodes the reply into reply if there is such a key, and the
// transaction was executed.
func (s *store) call(ctx context.Context, within time.Duration, method, path string, query url.Values, body, reply any) (clock time.Time, header http.Header, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := httpjson.NewRequest(ctx, method, s.URL+path+"?"+query.Encode(), body)
	if err == nil {
		if s.Token != "" {
			req.Header.Set("X-Consul-Token", s.Token)
		}
		clock, header, err = httpjson.Do(s.Client, req, reply)
	}
	var r *httpjson.Refusal
	switch {
	case err == nil:
	case errors.As(err, &r) && r.Status == http.StatusNotFound && method == http.MethodGet && r.Body == "": // no such key
		err = nil
	case r != nil && r.Status == http.StatusConflict && strings.Contains(r.Body, "index is stale"): // else a right is refused
		err = nil
	default:
		err = fmt.Errorf("consultoken: %w", err)
	}
	return clock, header, err
}
