package etcdtoken

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/register"
)

// object is a message of etcd's API. Bytes are sent in base64.
type object map[string]any

type kv struct {
	Key, Value  []byte
	ModRevision int64 `json:"mod_revision,string"`
}

type kvs struct {
	KVs  []kv
	More bool
}

func (k kv) entry(clock time.Time) (register.Entry, error) {
	e := register.Entry{Clock: clock, Version: version(strconv.FormatInt(k.ModRevision, 10), k.Value)}
	if err := json.Unmarshal(k.Value, &e.Record); err != nil {
		return e, fmt.Errorf("etcdtoken: the key %q has no record: %w", k.Key, err)
	}
	return e, nil
}

// version has the value too. After the restore of a snapshot, revisions repeat: the holder
// of before then has the revision of another holder's record.
func version(revision string, value []byte) string { return revision + " " + string(value) }

func (s *store) key(key string) []byte { return []byte(s.Prefix + key) }

// Load implements [register.Store]. It is linearizable: a member that is cut off returns
// an error, and not the record as it was.
func (s *store) Load(ctx context.Context, key string) (register.Entry, error) {
	var reply kvs
	clock, err := s.post(ctx, "/v3/kv/range", true, object{"key": s.key(key)}, &reply)
	if err != nil || len(reply.KVs) == 0 {
		return register.Entry{Clock: clock}, err
	}
	return reply.KVs[0].entry(clock)
}

// Swap implements [register.Store].
func (s *store) Swap(ctx context.Context, key, old string, next register.Record) (register.Entry, bool, error) {
	value, _ := json.Marshal(next) // strings and integers: it does not fail
	name := s.key(key)
	compare := []object{{"key": name, "target": "MOD", "mod_revision": "0"}} // equal: there is no such key
	if revision, before, exists := strings.Cut(old, " "); exists {
		compare[0]["mod_revision"] = revision
		compare = append(compare, object{"key": name, "target": "VALUE", "value": []byte(before)})
	}
	var reply struct {
		Header    struct{ Revision string }
		Succeeded bool
		Responses []struct {
			Range kvs `json:"response_range"`
		}
	}
	clock, err := s.post(ctx, "/v3/kv/txn", false, object{
		"compare": compare,
		"success": []object{{"request_put": object{"key": name, "value": value}}},
		"failure": []object{{"request_range": object{"key": name}}},
	}, &reply)
	if err != nil || reply.Succeeded {
		return register.Entry{Record: next, Version: version(reply.Header.Revision, value), Clock: clock}, err == nil, err
	}
	for _, r := range reply.Responses {
		for _, k := range r.Range.KVs {
			e, err := k.entry(clock)
			return e, false, err
		}
	}
	return register.Entry{Clock: clock}, false, nil
}

// Watch implements [register.Store]. If the events since seen were compacted, the server
// cancels the watch.
func (s *store) Watch(ctx context.Context, key, seen string) (register.Entry, error) {
	revision, _, _ := strings.Cut(seen, " ")
	from, _ := strconv.ParseInt(revision, 10, 64) // 0: from the first event on
	var stream io.ReadCloser
	_, err := s.send(ctx, "/v3/watch", object{"create_request": object{"key": s.key(key), "start_revision": from + 1}}, &stream)
	if err != nil {
		return register.Entry{}, err
	}
	defer stream.Close()
	for events := json.NewDecoder(stream); ; {
		var reply struct {
			Result struct {
				Events []struct {
					Type string
					KV   kv
				}
				Canceled  bool
				Reason    string `json:"cancel_reason"`
				Compacted string `json:"compact_revision"`
			}
		}
		err := events.Decode(&reply)
		if n := len(reply.Result.Events); n > 0 && err == nil {
			if last := reply.Result.Events[n-1]; last.Type != "DELETE" {
				return last.KV.entry(time.Time{})
			}
			return register.Entry{}, nil
		}
		switch r := reply.Result; {
		case err != nil:
			return register.Entry{}, fmt.Errorf("etcdtoken: the watch has ended: %w", err)
		case r.Canceled:
			return register.Entry{}, fmt.Errorf("etcdtoken: the watch has ended: compacted up to %s: %s", cmp.Or(r.Compacted, "nothing"), r.Reason)
		}
	}
}

// List implements [register.Store].
func (s *store) List(ctx context.Context, prefix string, visit func(string, register.Entry) bool) error {
	from, end := s.key(prefix), s.key(prefix)
	end[len(end)-1]++ // no byte of UTF-8 is 0xFF
	for reply := (kvs{More: true}); reply.More; {
		reply = kvs{}
		clock, err := s.post(ctx, "/v3/kv/range", true, object{"key": from, "range_end": end, "limit": 1000}, &reply)
		if err != nil {
			return err
		}
		for _, k := range reply.KVs {
			e, err := k.entry(clock)
			if err != nil || !visit(strings.TrimPrefix(string(k.Key), s.Prefix), e) {
				return err
			}
			from = append(k.Key, 0)
		}
	}
	return nil
}
