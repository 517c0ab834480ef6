package redistoken

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] on Redis, and a [token.QueueIssuer], [token.BatchRenewer],
// [token.Recoverer] and [token.Inspector]. It is safe for concurrent use. It must not be
// copied. Its fields must not change after first use.
//
// Every method returns when its ctx ends, with [context.Cause], except that Wait may take
// up to a second and a half longer. The request may still take effect on the server after
// that. If ctx has already ended, a method sends nothing.
// If the client repeats a Release because the reply was lost, Release returns
// [token.ErrLost] although the lock was released. The client's other retries are
// harmless.
type Issuer struct {
	// Client is the connection to the server; see "Which servers" in the package comment.
	// It is required. The Issuer does not close it.
	Client redis.UniversalClient
	// Prefix is the prefix of every key and channel. Programs that share locks use the
	// same prefix. It must not contain braces. Empty means "fencepost".
	Prefix string
	// Replicas is how many replicas must confirm a grant before it is returned: see
	// [ErrReplicas]. They have a third of the ttl, and at most a second, to confirm; the
	// client's ReadTimeout must be longer. Zero means that no replica must confirm.
	Replicas int

	state waitState
}

var (
	_ token.Issuer       = (*Issuer)(nil)
	_ token.QueueIssuer  = (*Issuer)(nil)
	_ token.BatchRenewer = (*Issuer)(nil)
	_ token.Recoverer    = (*Issuer)(nil)
	_ token.Inspector    = (*Issuer)(nil)
)

// Close ends the subscriptions that Wait has opened and stops all background goroutines.
// Waiting calls of Wait return [ErrClosed]. Calls that do not wait continue to work.
// Close does not close Client. Without Close, an Issuer ends its subscriptions a minute
// after its last waiter has left.
func (i *Issuer) Close() error {
	i.state.mu.Lock()
	i.state.closed = true
	var open []*redis.PubSub
	for _, s := range i.state.subscriptions {
		open = append(open, s.pubsub)
	}
	if i.state.cancel != nil {
		i.state.cancel()
	}
	i.state.mu.Unlock()
	for _, pubsub := range open {
		_ = pubsub.Close() // it may have failed already
	}
	i.state.background.Wait()
	return nil
}

// Recover implements [token.Recoverer]. It raises the numbers of the resource's whole
// bucket: of one resource in 256. It returns [token.ErrLost] if the bucket's counter is
// number or greater, and [token.ErrTooFarAhead] if number is more than [token.MaxAhead]
// above the server's clock.
func (i *Issuer) Recover(ctx context.Context, resource string, number int64) error {
	k, err := i.keys(resource)
	var reply any
	if err == nil {
		reply, err = i.run(ctx, recoverScript, k, number, token.MaxAhead)
	}
	switch {
	case err != nil:
	case reply == int64(1):
		return nil
	case reply == int64(0):
		err = token.ErrLost
	case reply == int64(-1):
		err = token.ErrTooFarAhead
	default:
		err = parseError(reply)
	}
	return fmt.Errorf("redistoken: recover %s to %d: %w", resource, number, err)
}

func (i *Issuer) prefix() string { return cmp.Or(i.Prefix, "fencepost") }

// check returns an error if the Issuer's fields are not valid.
func (i *Issuer) check() error {
	switch c := i.Client.(type) {
	case nil:
		return errors.New("Issuer has no Client")
	case *redis.Ring:
		return errors.New("a Ring moves keys to other servers, which would grant locks that are held")
	case *redis.ClusterClient:
		if o := c.Options(); o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return errors.New("a ClusterClient with ReadOnly, RouteByLatency or RouteRandomly sends requests to replicas")
		}
	}
	// A key's hash tag is the text between its first '{' and the next '}'. Braces in the
	// prefix would replace the bucket as the hash tag.
	if strings.ContainsAny(i.Prefix, "{}") {
		return fmt.Errorf("prefix %q contains a brace", i.Prefix)
	}
	if i.Replicas < 0 {
		return fmt.Errorf("negative number of Replicas: %d", i.Replicas)
	}
	return nil
}

// clusterClient is a [redis.ClusterClient], or a wrapper of one.
type clusterClient interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ForEachMaster(ctx context.Context, visit func(ctx context.Context, master *redis.Client) error) error
	ReloadState(ctx context.Context)
}

// address is how queue.lua notifies this process for the bucket of k: 'p' for PUBLISH or
// 's' for SPUBLISH, and the channel's name. In a cluster, the reply to a publish counts
// subscribers only if the channel is sharded and in the bucket's slot, so each bucket has
// its own channel.
func (i *Issuer) address(k *keys) string {
	if _, ok := i.Client.(clusterClient); ok {
		return "s" + k.base + "handoff:" + i.state.processID
	}
	return "p" + i.prefix() + ":handoff:" + i.state.processID
}
