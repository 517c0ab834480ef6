package natstoken

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token"
)

// store is a [register.Store] over a bucket.
type store struct {
	js     jetstream.JetStream
	bucket jetstream.KeyValue
	stream atomic.Pointer[jetstream.Stream] // the bucket's, for reads from its leader; nil before the first
}

var _ register.Clocker = (*store)(nil)

// timeout is how long a server has to answer.
const timeout = 5 * time.Second

// ask makes a call. While the connection is restored it makes none: the client would keep
// the request until then.
func ask[T any](ctx context.Context, s *store, call func(ctx context.Context) (T, error)) (v T, err error) {
	if s.js.Conn().IsReconnecting() {
		return v, s.failure(nats.ErrConnectionReconnecting)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v, err = call(ctx)
	return v, s.failure(err)
}

// Clock implements [register.Clocker]: the leader of the bucket's stream tells its time. It
// returns an error if the records expire.
func (s *store) Clock(ctx context.Context) (clock time.Time, err error) {
	stream, err := ask(ctx, s, func(ctx context.Context) (jetstream.Stream, error) { return s.js.Stream(ctx, "KV_"+s.bucket.Bucket()) })
	if err != nil {
		return clock, err
	}
	info := stream.CachedInfo()
	if info.Config.MaxAge != 0 {
		return clock, fmt.Errorf("natstoken: the bucket %q has a TTL: its keys have the last numbers, and must not expire", s.bucket.Bucket())
	}
	// A replica that is behind would show a lock as held that its leader has released. The
	// client asks the leader if this is false.
	info.Config.AllowDirect = false
	s.stream.Store(&stream)
	return info.TimeStamp, nil
}

// entry returns the record in a message of the key. Without one, the message marks that the
// key was deleted: a version with an empty record.
func entry(key string, revision uint64, deleted bool, value []byte) (e register.Entry, err error) {
	e.Version = strconv.FormatUint(revision, 10)
	if deleted {
		return e, nil
	}
	if err = json.Unmarshal(value, &e.Record); err != nil {
		err = fmt.Errorf("natstoken: the key %q has no record: %w", key, err)
	}
	return e, err
}

// Load implements [register.Store].
func (s *store) Load(ctx context.Context, key string) (register.Entry, error) {
	if s.stream.Load() == nil {
		if _, err := s.Clock(ctx); err != nil {
			return register.Entry{}, err
		}
	}
	name := register.Name(key)
	m, err := ask(ctx, s, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return (*s.stream.Load()).GetLastMsgForSubject(ctx, "$KV."+s.bucket.Bucket()+"."+name)
	})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return register.Entry{}, nil
	case err != nil:
		return register.Entry{}, err
	}
	return entry(name, m.Sequence, m.Header.Get("KV-Operation") != "", m.Data)
}

// Swap implements [register.Store].
func (s *store) Swap(ctx context.Context, key, old string, next register.Record) (register.Entry, bool, error) {
	value, _ := json.Marshal(next)            // strings and integers: it does not fail
	last, _ := strconv.ParseUint(old, 10, 64) // 0: there is no such key
	revision, err := ask(ctx, s, func(ctx context.Context) (uint64, error) {
		return s.bucket.Update(ctx, register.Name(key), value, last)
	})
	// The second code is that of a cluster, while another write is on its way.
	if r := reply(err); r != nil && (r.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || r.ErrorCode == 10164) {
		e, err := s.Load(ctx, key)
		return e, false, err
	}
	return register.Entry{Record: next, Version: strconv.FormatUint(revision, 10)}, err == nil, err
}

// Watch implements [register.Store]. The client restores the watch with the connection. If
// the bucket is deleted and made again, the watch is deaf until the revisions pass seen.
func (s *store) Watch(ctx context.Context, key, seen string) (e register.Entry, err error) {
	from, _ := strconv.ParseUint(seen, 10, 64)
	ended := s.watch(ctx, register.Name(key), func(kv jetstream.KeyValueEntry) bool {
		if kv == nil {
			return true
		}
		e, err = entry(kv.Key(), kv.Revision(), kv.Operation() != jetstream.KeyValuePut, kv.Value())
		return e.Version == seen && err == nil
	}, jetstream.ResumeFromRevision(from+1))
	return e, errors.Join(err, ended)
}

// List implements [register.Store].
func (s *store) List(ctx context.Context, prefix string, visit func(string, register.Entry) bool) (err error) {
	ended := s.watch(ctx, ">", func(kv jetstream.KeyValueEntry) bool {
		if kv == nil {
			return false
		}
		key, ok := register.Key(kv.Key())
		if !ok || !strings.HasPrefix(key, prefix) {
			return true
		}
		var e register.Entry
		e, err = entry(kv.Key(), kv.Revision(), false, kv.Value())
		return err == nil && visit(key, e)
	}, jetstream.IgnoreDeletes())
	return errors.Join(err, ended)
}

// watch calls visit for each entry, and with nil after those that were there already, until
// visit returns false.
func (s *store) watch(ctx context.Context, keys string, visit func(jetstream.KeyValueEntry) bool, options ...jetstream.WatchOpt) error {
	ctx, end := context.WithCancel(ctx)
	defer end() // the watch
	w, err := ask(ctx, s, func(context.Context) (jetstream.KeyWatcher, error) {
		return s.bucket.Watch(ctx, keys, options...) // waits for five seconds at most
	})
	if err != nil {
		return err
	}
	closed := time.NewTicker(time.Second)
	defer closed.Stop()
	for {
		select {
		case <-closed.C: // the client does not always end a watch that began just before
			if s.js.Conn().IsClosed() {
				return errors.New("natstoken: the watch has ended: the connection is closed")
			}
		case kv, open := <-w.Updates():
			if !open {
				return errors.New("natstoken: the watch has ended")
			}
			if !visit(kv) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// curable are the client's errors that a retry can cure.
var curable = []error{
	nats.ErrConnectionReconnecting, nats.ErrDisconnected, nats.ErrReconnectBufExceeded, nats.ErrStaleConnection,
	nats.ErrNoResponders, jetstream.ErrNoStreamResponse, nats.ErrTimeout, context.DeadlineExceeded,
}

// reply returns the server's reply that err is, or nil.
func reply(err error) *jetstream.APIError {
	var e *jetstream.APIError
	_ = errors.As(err, &e)
	return e
}

// failure adds to err whether a retry can cure it.
func (s *store) failure(err error) error {
	if err == nil {
		return nil
	}
	is := func(e error) bool { return errors.Is(err, e) }
	denied := s.js.Conn().LastError()
	switch r := reply(err); {
	case r != nil && r.Code == 503 && r.ErrorCode != jetstream.JSErrCodeJetStreamNotEnabled && r.ErrorCode != jetstream.JSErrCodeJetStreamNotEnabledForAccount:
	case r != nil, !slices.ContainsFunc(curable, is):
		return fmt.Errorf("natstoken: %w", err)
	case denied != nil && strings.Contains(denied.Error(), "Permissions Violation") && strings.Contains(denied.Error(), s.bucket.Bucket()):
		return fmt.Errorf("natstoken: %w: %w", denied, err) // the server has not answered
	}
	return fmt.Errorf("natstoken: %w: %w", token.ErrUnreachable, err)
}
