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

// stream is a watch of a key from a version on. It goes on after the Watch that began it: the
// next Watch, from the version that this one returned, reads its next event. Otherwise each
// change of a record would cost each waiter a connection.
type stream struct {
	events *json.Decoder
	end    context.CancelFunc
}

func (s *store) openStream(ctx context.Context, key, seen string) (*stream, error) {
	revision, _, _ := strings.Cut(seen, " ")
	from, _ := strconv.ParseInt(revision, 10, 64) // 0: from the first event on
	within, end := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, end)()
	var body io.ReadCloser
	_, err := s.send(within, "/v3/watch", object{"create_request": object{"key": s.key(key), "start_revision": from + 1}}, &body)
	if err != nil {
		end()
		return nil, err
	}
	context.AfterFunc(within, func() { _ = body.Close() })
	return &stream{json.NewDecoder(body), end}, nil
}

// Watch implements [register.Store]. If the events since seen were compacted, the server
// cancels the watch.
func (s *store) Watch(ctx context.Context, key, seen string) (e register.Entry, err error) {
	var w *stream
	if kept, is := s.streams.LoadAndDelete(key + "\x00" + seen); is {
		w = kept.(*stream)
	} else if w, err = s.openStream(ctx, key, seen); err != nil {
		return e, err
	}
	stop := context.AfterFunc(ctx, w.end)
	if e, err = w.next(); err != nil || !stop() {
		w.end()
		return e, err
	}
	id := key + "\x00" + e.Version
	if other, is := s.streams.Swap(id, w); is {
		other.(*stream).end()
	}
	time.AfterFunc(s.idle, func() {
		if s.streams.CompareAndDelete(id, w) {
			w.end()
		}
	})
	return e, nil
}

// next returns the record after the next events.
func (w *stream) next() (register.Entry, error) {
	for {
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
		err := w.events.Decode(&reply)
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
