package redistoken

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
)

// Inspect implements [token.Inspector]. The number is the last one of the resource's
// bucket, which other resources share. Waiters has one waiter of each process, its first.
func (i *Issuer) Inspect(ctx context.Context, resource string) (state token.State, err error) {
	k, err := i.keys(resource)
	if err == nil {
		c := newCommand(ctx, inspectScript, k)
		go i.send(c)
		state, err = k.inspected(ctx, c)
	}
	if err != nil {
		return token.State{}, fmt.Errorf("redistoken: inspect %s: %w", resource, err)
	}
	return state, nil
}

// inspected returns the state in the reply to c.
func (k *keys) inspected(ctx context.Context, c *command) (token.State, error) {
	reply, err := c.wait(ctx)
	if err != nil {
		return token.State{}, err
	}
	s := token.State{Resource: k.resource}
	var ms int64
	var waiters []any
	if !fields(reply, &s.Holder, &ms, &s.Number, &waiters) {
		return token.State{}, parseError(reply)
	}
	if s.Holder != "" {
		s.Remaining = remaining(ms)
	}
	for _, waiter := range waiters {
		s.Waiters = append(s.Waiters, fmt.Sprint(waiter))
	}
	return s, nil
}

// Locks implements [token.Inspector]. It finds the keys by SCAN, on each master of a
// cluster. SCAN reads the names of all keys of the server, a thousand at a time, and other
// clients' commands run in between. A resource may be returned twice if the server resizes
// its table of keys meanwhile, and missed if a cluster moves its slot meanwhile.
func (i *Issuer) Locks(ctx context.Context, prefix string) iter.Seq2[token.State, error] {
	return func(yield func(token.State, error) bool) {
		servers, err := i.masters(ctx)
		for n, more := 0, true; n < len(servers) && more && err == nil; n++ {
			more, err = i.scan(ctx, servers[n], prefix, yield)
		}
		if err != nil {
			yield(token.State{}, fmt.Errorf("redistoken: locks: %w", err))
		}
	}
}

// masters returns a client of each server that has locks.
func (i *Issuer) masters(ctx context.Context) (servers []redis.UniversalClient, err error) {
	cluster, ok := i.Client.(clusterClient)
	if err := i.check(); err != nil || !ok {
		return []redis.UniversalClient{i.Client}, err
	}
	listed := &command{Cmd: redis.NewCmd(ctx), done: make(chan struct{})} // for the meaning of its error
	go func() {
		defer close(listed.done)
		var mu sync.Mutex
		listed.SetErr(cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			servers = append(servers, master)
			return nil
		}))
	}()
	if _, err := listed.wait(ctx); err != nil {
		return nil, err
	}
	return servers, nil
}

var escapeGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// scan passes the locks of one server to yield. It returns false if yield has.
func (i *Issuer) scan(ctx context.Context, server redis.UniversalClient, prefix string, yield func(token.State, error) bool) (bool, error) {
	pattern := escapeGlob.Replace(i.prefix()) + ":{*}:*:" + escapeGlob.Replace(prefix) + "*"
	for cursor := ""; cursor != "0"; {
		page := &command{Cmd: redis.NewCmd(ctx, "scan", cmp.Or(cursor, "0"), "match", pattern, "count", maxBatch), done: make(chan struct{})}
		go sendBatch(ctx, server, []*command{page})
		reply, err := page.wait(ctx)
		if err != nil {
			return false, err
		}
		var names []any
		if !fields(reply, &cursor, &names) {
			return false, parseError(reply)
		}
		var found []*keys
		var queues []bool // whether it was found by the key of its queue
		var reads []*command
		for _, name := range names {
			if k, queue := i.keysOf(name); k != nil && strings.HasPrefix(k.resource, prefix) {
				found, queues = append(found, k), append(queues, queue)
				reads = append(reads, newCommand(ctx, inspectScript, k))
			}
		}
		go sendBatch(ctx, i.Client, reads)
		for n, k := range found {
			s, err := k.inspected(ctx, reads[n])
			if err != nil {
				return false, err
			}
			// A resource that is held and waited for has two keys. It is returned for its lock.
			if free := s.Holder == ""; queues[n] == free && (!free || len(s.Waiters) > 0) && !yield(s, nil) {
				return false, nil
			}
		}
	}
	return true, nil
}

// keysOf returns the keys of the resource whose lock or queue has this name, or nil if the
// name is that of another key.
func (i *Issuer) keysOf(name any) (k *keys, queue bool) {
	text, _ := name.(string)
	for at, kind := range map[int]string{0: "}:lock:", 2: "}:queue:"} {
		_, resource, found := strings.Cut(text, kind) // the first such brace ends the bucket
		if k, err := i.keys(resource); found && err == nil && k.args[at] == name {
			return k, at > 0
		}
	}
	return nil, false
}
