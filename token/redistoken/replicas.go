package redistoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
)

// ErrReplicas is found where fewer replicas than [Issuer.Replicas] confirmed a
// grant in time. It was given back.
var ErrReplicas = errors.New("redistoken: too few replicas have the grant")

// mostWait bounds how long replicas may take.
const mostWait = time.Second

// replicated returns grant if enough replicas have it, and else gives it back.
//
// WAIT counts what was written on its own connection, and a lock that was handed
// over was written by somebody else's: so the lease is renewed first. Replicas
// that have the renewal have what was written before it.
func (i *Issuer) replicated(ctx context.Context, k *keys, grant token.Grant, ttl time.Duration) (token.Grant, error) {
	if i.Replicas == 0 {
		return grant, nil
	}
	until, err := i.waitReplicas(ctx, k, grant.Token, ttl)
	if err != nil {
		i.abandon(ctx, k, grant.Token.Holder)
		return token.Grant{}, fmt.Errorf("redistoken: acquire %s: %w", k.resource, err)
	}
	grant.Until = until
	return grant, nil
}

func (i *Issuer) waitReplicas(ctx context.Context, k *keys, tok token.Token, ttl time.Duration) (time.Time, error) {
	server, err := i.server(ctx, k)
	if err != nil {
		return time.Time{}, err
	}
	bound := max(min(ttl/3, mostWait), time.Millisecond) // zero would be for ever
	sent := time.Now()
	reply, err := await(ctx, func() (any, error) {
		c := newCall(ctx, renewScript, k, tok.Holder, ttl.Milliseconds())
		have, err := waitFor(ctx, server, &c.cmd, i.Replicas, bound)
		if c.forgotten(ctx) {
			have, err = waitFor(ctx, server, c.again, i.Replicas, bound)
		}
		if err != nil {
			return nil, err
		}
		renewed, err := c.result()
		return [2]any{renewed, have}, err
	})
	if err != nil {
		return time.Time{}, err
	}
	answers := reply.([2]any)
	if err := i.renewed(k, tok, answers[0], sent.Add(ttl)); err != nil {
		return time.Time{}, err
	}
	if have, _ := answers[1].(int64); have < int64(i.Replicas) {
		return time.Time{}, fmt.Errorf("%w: %d of %d after %s", ErrReplicas, have, i.Replicas, bound)
	}
	return sent.Add(ttl), nil
}

// waitFor sends cmd, and WAIT on the same connection.
func waitFor(
	ctx context.Context, server redis.UniversalClient, cmd redis.Cmder, replicas int, bound time.Duration,
) (have int64, err error) {
	wait := redis.NewIntCmd(ctx, "wait", replicas, bound.Milliseconds())
	_, err = server.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		_ = pipe.Process(ctx, cmd)
		return pipe.Process(ctx, wait)
	})
	return wait.Val(), err
}

// server is a client of the one server that has k's keys: a pipeline of a
// ClusterClient would send WAIT to any.
func (i *Issuer) server(ctx context.Context, k *keys) (redis.UniversalClient, error) {
	if cluster, ok := i.Client.(sharded); ok {
		return cluster.MasterForKey(ctx, k.lock)
	}
	return i.Client, nil
}
