package zktoken

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fencepost/fencepost/internal/outage"
	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token"
)

// store is a [register.Store] on the znodes below Root.
type store struct{ Config }

var _ register.Clocker = (*store)(nil)

const (
	timeout = 5 * time.Second // how long a server has to answer
	clock   = "/.clock"       // no name of a resource has a dot
)

func (s *store) path(key string) string { return s.Root + "/" + register.Name(key) }

// ask makes a call. The client's calls take no context: one that does not end in time goes
// on alone.
func ask[T any](ctx context.Context, call func() (T, error)) (v T, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := make(chan error, 1)
	var result T
	go func() {
		var err error
		result, err = call()
		done <- err
	}()
	select {
	case err = <-done:
		v = result
	case <-ctx.Done():
		err = ctx.Err()
	}
	curable := func(e error) bool { return errors.Is(err, e) }
	switch {
	case err == nil:
		return v, nil
	case outage.Is(err) || slices.ContainsFunc([]error{zk.ErrNoServer, zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrSessionMoved}, curable):
		return v, fmt.Errorf("zktoken: %w: %w", token.ErrUnreachable, err)
	}
	return v, fmt.Errorf("zktoken: %w", err)
}

// create creates a znode, and those above it. It repeats what was refused since one of them
// was missing.
func (s *store) create(path string, data []byte) error {
	_, err := s.Conn.Create(path, data, 0, s.ACL)
	if parent := path[:strings.LastIndexByte(path, '/')]; errors.Is(err, zk.ErrNoNode) && parent != "" {
		if err = s.create(parent, nil); err == nil || errors.Is(err, zk.ErrNodeExists) {
			_, err = s.Conn.Create(path, data, 0, s.ACL)
		}
	}
	return err
}

// Clock implements [register.Clocker]. The leader stamps each write.
func (s *store) Clock(ctx context.Context) (time.Time, error) {
	return ask(ctx, func() (now time.Time, err error) {
		stat, err := s.Conn.Set(s.Root+clock, nil, -1)
		if errors.Is(err, zk.ErrNoNode) {
			if err = s.create(s.Root+clock, nil); err == nil || errors.Is(err, zk.ErrNodeExists) {
				stat, err = s.Conn.Set(s.Root+clock, nil, -1)
			}
		}
		if err != nil {
			return now, err
		}
		return time.UnixMilli(stat.Mtime), nil
	})
}

func version(stat *zk.Stat) string { return strconv.Itoa(int(stat.Version)) }

// get reads a record.
func (s *store) get(key string) (e register.Entry, err error) {
	data, stat, err := s.Conn.Get(s.path(key))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return e, nil
	case err != nil:
		return e, err
	}
	if err = json.Unmarshal(data, &e.Record); err != nil {
		return e, fmt.Errorf("the znode %s has no record: %w", s.path(key), err)
	}
	e.Version = version(stat)
	return e, nil
}

// Load implements [register.Store]. The server first catches up with the leader.
func (s *store) Load(ctx context.Context, key string) (register.Entry, error) {
	return ask(ctx, func() (register.Entry, error) {
		if _, err := s.Conn.Sync(s.path(key)); err != nil {
			return register.Entry{}, err
		}
		return s.get(key)
	})
}

// Swap implements [register.Store].
func (s *store) Swap(ctx context.Context, key, old string, next register.Record) (register.Entry, bool, error) {
	data, _ := json.Marshal(next) // strings and integers: it does not fail
	e, err := ask(ctx, func() (register.Entry, error) {
		e := register.Entry{Record: next, Version: "0"}
		if old == "" {
			return e, s.create(s.path(key), data)
		}
		last, _ := strconv.ParseInt(old, 10, 32) // of version
		stat, err := s.Conn.Set(s.path(key), data, int32(last))
		if err == nil {
			e.Version, e.Clock = version(stat), time.UnixMilli(stat.Mtime)
		}
		return e, err
	})
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
		e, err = s.Load(ctx, key)
		return e, false, err
	}
	return e, err == nil, err
}

// Watch implements [register.Store]. The client restores the watch with the connection, and
// cannot take it back: if ctx ends first, the watch stays until the record changes.
func (s *store) Watch(ctx context.Context, key, seen string) (register.Entry, error) {
	for {
		var changed <-chan zk.Event
		e, err := ask(ctx, func() (e register.Entry, err error) {
			if _, _, changed, err = s.Conn.ExistsW(s.path(key)); err != nil {
				return e, err
			}
			return s.get(key)
		})
		if err != nil || e.Version != seen {
			return e, err
		}
		select {
		case event := <-changed:
			if event.Err != nil {
				return e, fmt.Errorf("zktoken: the watch has ended: %w", event.Err)
			}
		case <-ctx.Done():
			return e, context.Cause(ctx)
		}
	}
}

// List implements [register.Store]. It reads each record alone.
func (s *store) List(ctx context.Context, prefix string, visit func(string, register.Entry) bool) error {
	names, err := ask(ctx, func() ([]string, error) {
		names, _, err := s.Conn.Children(s.Root)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	for _, name := range names {
		key, ok := register.Key(name)
		if !ok || !strings.HasPrefix(key, prefix) {
			continue
		}
		e, err := s.Load(ctx, key)
		if err != nil || !visit(key, e) {
			return err
		}
	}
	return err
}
