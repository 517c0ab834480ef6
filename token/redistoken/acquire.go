package redistoken

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
)

// ErrReplicas is returned when fewer than [Issuer.Replicas] replicas confirmed a grant in
// time. The grant was released.
var ErrReplicas = errors.New("redistoken: too few replicas have the grant")

const (
	// maxReplicaWait bounds how long a grant waits for replicas.
	maxReplicaWait = time.Second
	// maxBatch is how many leases one pipeline renews. A longer pipeline would delay the
	// server's other clients for too long.
	maxBatch = 1000
	// buckets is how many counters there are.
	buckets = 256
)

// Acquire implements [token.Issuer]. The ttl is rounded down to whole milliseconds; less
// than one is an error. If holder has the lock already, it gets a new number, and its
// lease does not become shorter. If another program removed the lock's expiry,
// [token.HeldError.Remaining] is the longest possible duration.
//
// Acquire returns a [*token.HeldError] if another holder has the lock or waits for it,
// [ErrReplicas] if too few replicas have the grant, [token.ErrExhausted] if no number is
// left, and [token.ErrUnreachable] if the server cannot be reached.
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	ttl, k, err := i.request(resource, holder, ttl)
	if err != nil {
		return token.Grant{}, err
	}
	return i.acquire(ctx, k, holder, ttl, 0)
}

// request validates the arguments of Acquire and Wait.
func (i *Issuer) request(resource, holder string, ttl time.Duration) (time.Duration, *keys, error) {
	tok := token.Token{Resource: resource, Number: 1, Holder: holder}
	if err := tok.Validate(); err != nil {
		return 0, nil, err
	}
	ttl, err := wholeMilliseconds(ttl)
	if err != nil {
		return 0, nil, err
	}
	k, err := i.keys(resource)
	if err != nil {
		return 0, nil, fmt.Errorf("redistoken: acquire %s: %w", resource, err)
	}
	return ttl, k, nil
}

// keys are the names of a resource's keys in Redis. They are part of the format: all
// programs must compute the same names.
type keys struct {
	resource string
	base     string // the prefix of the bucket's keys
	lock     string
	args     [3]any // lock, counter, queue: the order of the scripts' KEYS
}

// keys returns the keys of resource, or an error if the Issuer's fields are not valid.
func (i *Issuer) keys(resource string) (*keys, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	bucket := crc32.ChecksumIEEE([]byte(resource)) % buckets
	base := i.prefix() + ":{" + strconv.Itoa(int(bucket)) + "}:"
	lock := base + "lock:" + resource
	return &keys{resource, base, lock, [3]any{lock, base + "counter", base + "queue:" + resource}}, nil
}

func (k *keys) grant(number int64, holder string, until time.Time) token.Grant {
	return token.Grant{Token: token.Token{Resource: k.resource, Number: number, Holder: holder}, Until: until}
}

// acquire runs acquire.lua. After the end of ctx it waits for the reply for patience. A Wait
// has patience, to prevent the following:
//
//  1. The request is sent on one connection, and ctx ends.
//  2. A release of the lock is sent on another connection. It arrives first and has no
//     effect.
//  3. The first request arrives and acquires the lock for a caller that has returned.
func (i *Issuer) acquire(ctx context.Context, k *keys, holder string, ttl, patience time.Duration) (token.Grant, error) {
	sent := time.Now()
	i.state.extend(k.lock, holder, sent.Add(ttl), false)
	c := newCommand(ctx, acquireScript, k, holder, ttl.Milliseconds())
	go i.send(c)
	reply, err := c.wait(ctx)
	if ctx.Err() != nil && patience > 0 {
		select {
		case <-c.done:
			reply, err = c.reply(ctx)
		case <-time.After(patience):
			return token.Grant{}, errStalled
		}
	}
	var number int64
	var refused *refusal
	if err == nil {
		number, refused, err = parseGrant(reply, k.resource)
	}
	switch {
	case err != nil:
		return token.Grant{}, fmt.Errorf("redistoken: acquire %s: %w", k.resource, err)
	case refused != nil:
		return token.Grant{}, &refused.HeldError
	}
	return i.replicated(ctx, k, k.grant(number, holder, sent.Add(ttl)), ttl)
}

// refusal is the reply of wait.lua and acquire.lua if another holder has the lock. Only
// wait.lua sets clock and ticket.
type refusal struct {
	token.HeldError
	clock  int64  // the server's, in microseconds
	ticket string // the caller's position in the queue
}

// parseGrant parses the reply of acquire.lua and wait.lua.
func parseGrant(reply any, resource string) (number int64, refused *refusal, err error) {
	if number, ok := reply.(int64); ok && number > 0 {
		return number, nil, nil
	} else if ok {
		return 0, nil, token.ErrExhausted
	}
	r := &refusal{HeldError: token.HeldError{Resource: resource}}
	var ms int64
	if !fields(reply, &r.Holder, &ms) && !fields(reply, &r.Holder, &ms, &r.clock, &r.ticket) {
		return 0, nil, parseError(reply)
	}
	r.Remaining = remaining(ms)
	return 0, r, nil
}

// fields stores the elements of reply in into, pointers to strings, integers and lists. It
// returns false if reply is not a list of as many elements of these types.
func fields(reply any, into ...any) bool {
	list, ok := reply.([]any)
	if !ok || len(list) != len(into) {
		return false
	}
	for n, field := range into {
		switch field := field.(type) {
		case *string:
			*field, ok = list[n].(string)
		case *int64:
			*field, ok = list[n].(int64)
		case *[]any:
			*field, ok = list[n].([]any)
		}
		if !ok {
			return false
		}
	}
	return true
}

// remaining converts the reply of PTTL, which is negative for a key without expiry.
func remaining(ms int64) time.Duration {
	if ms < 0 {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// counterError is returned when a counter is not a number. The scripts do not change the
// counter. They grant nothing until the key is deleted or is a number again.
type counterError struct{ key, holds string }

func (e *counterError) Error() string {
	return fmt.Sprintf("the counter %q is not a number: its value is %s", e.key, e.holds)
}

// parseError returns the error of a script's reply that is not a result: that the counter is
// not a number, or that the reply is unexpected.
func parseError(reply any) error {
	var zero int64
	e := new(counterError)
	if !fields(reply, &zero, &e.key, &e.holds) || zero != 0 {
		return fmt.Errorf("unexpected reply %v", reply)
	}
	e.holds = strings.ToValidUTF8(e.holds, "\uFFFD")
	return e
}

// replicated returns grant if enough replicas have it. If not, it releases the grant.
//
// WAIT counts the writes of its own connection, but a lock that was handed over was
// written on another one. So replicated first renews the lease: a replica that has the
// renewal has every earlier write too.
func (i *Issuer) replicated(ctx context.Context, k *keys, grant token.Grant, ttl time.Duration) (token.Grant, error) {
	if i.Replicas == 0 {
		return grant, nil
	}
	until, err := i.waitReplicas(ctx, k, grant.Token, ttl)
	if err != nil {
		i.releaseBestEffort(ctx, k, grant.Token.Holder)
		return token.Grant{}, fmt.Errorf("redistoken: acquire %s: %w", k.resource, err)
	}
	grant.Until = until
	return grant, nil
}

func (i *Issuer) waitReplicas(ctx context.Context, k *keys, tok token.Token, ttl time.Duration) (time.Time, error) {
	server, _, err := i.server(ctx, k.lock)
	if err != nil {
		return time.Time{}, err
	}
	r, err := i.newRenewal(ctx, tok, ttl)
	if err != nil {
		return time.Time{}, err
	}
	// A script that is sent again would be written after WAIT had counted.
	r.useEval(ctx)
	bound := max(min(ttl/3, maxReplicaWait), time.Millisecond) // a timeout of zero means no timeout to WAIT
	confirmed := &command{Cmd: redis.NewCmd(ctx, "wait", i.Replicas, bound.Milliseconds()), done: make(chan struct{})}
	go sendBatch(ctx, server, []*command{r.command, confirmed})
	until, err := i.renewed(ctx, r)
	if err != nil {
		return time.Time{}, err
	}
	reply, err := confirmed.wait(ctx)
	if n, ok := reply.(int64); err == nil && (!ok || n < int64(i.Replicas)) {
		err = fmt.Errorf("%w: %v of %d after %s", ErrReplicas, reply, i.Replicas, bound)
	}
	return until, err
}

// server returns a client of the server that has key, and the server's address, which is
// empty if there is only one server. A pipeline of a ClusterClient could send WAIT to any
// node.
func (i *Issuer) server(ctx context.Context, key string) (server redis.UniversalClient, addr string, err error) {
	cluster, ok := i.Client.(clusterClient)
	if !ok {
		return i.Client, "", nil
	}
	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		cluster.ReloadState(ctx)
		return nil, "", err
	}
	return master, master.Options().Addr, nil
}

// Renew implements [token.Issuer]. The ttl is rounded down to whole milliseconds; less
// than one is an error. Renew returns [token.ErrLost] if the token's holder does not have
// the lock.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	r, err := i.newRenewal(ctx, tok, ttl)
	if err != nil {
		return time.Time{}, err
	}
	go i.send(r.command)
	return i.renewed(ctx, r)
}

// renewal is the request to renew a token.
type renewal struct {
	*command
	tok   token.Token
	keys  *keys
	until time.Time // the end of the lease if the request succeeds
}

// newRenewal returns a request that is about to be sent.
func (i *Issuer) newRenewal(ctx context.Context, tok token.Token, ttl time.Duration) (*renewal, error) {
	ttl, err := wholeMilliseconds(ttl)
	if err != nil {
		return nil, err
	}
	k, err := i.keys(tok.Resource)
	if err != nil {
		return nil, fmt.Errorf("redistoken: renew %s: %w", tok, err)
	}
	until := time.Now().Add(ttl)
	i.state.extend(k.lock, tok.Holder, until, false)
	return &renewal{newCommand(ctx, renewScript, k, tok.Holder, ttl.Milliseconds()), tok, k, until}, nil
}

// renewed waits for the reply to r, and returns the end of the lease.
func (i *Issuer) renewed(ctx context.Context, r *renewal) (time.Time, error) {
	reply, err := r.wait(ctx)
	switch {
	case err != nil:
	case reply == int64(1):
		i.state.extend(r.keys.lock, r.tok.Holder, r.until, true)
		return r.until, nil
	case reply == int64(0):
		err = token.ErrLost
	default:
		err = parseError(reply)
	}
	return time.Time{}, fmt.Errorf("redistoken: renew %s: %w", r.tok, err)
}

// extend records that holder has the lock until the given time. Before a request that
// extends the lease is sent, renewed is false: holder may have the lock until then. Without
// that, a late notification that arrives after the old end and before the reply would
// release the lock.
func (s *waitState) extend(lock, holder string, until time.Time, renewed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[lock]; q != nil {
		if held := q.held[holder]; held != nil && (renewed || until.After(held.until)) {
			held.until = until
		}
	}
}

// wholeMilliseconds rounds ttl down to the unit of Redis.
func wholeMilliseconds(ttl time.Duration) (time.Duration, error) {
	if ttl < time.Millisecond {
		return 0, fmt.Errorf("redistoken: ttl %s is less than 1ms", ttl)
	}
	return ttl.Truncate(time.Millisecond), nil
}

// RenewAll implements [token.BatchRenewer]. It takes one round trip for each 1,000 leases
// and server. Each ttl is rounded down to whole milliseconds; less than one is an error.
func (i *Issuer) RenewAll(ctx context.Context, batch []token.Renewal) {
	if len(batch) == 1 { // newer clients use separate connections for pipelines
		b := &batch[0]
		b.Until, b.Err = i.Renew(ctx, b.Token, b.TTL)
		return
	}
	for chunk := range slices.Chunk(batch, maxBatch) {
		i.renewBatch(ctx, chunk)
	}
}

func (i *Issuer) renewBatch(ctx context.Context, batch []token.Renewal) {
	renewals := make([]*renewal, len(batch)) // nil if not valid
	var commands []*command
	for n, b := range batch {
		if renewals[n], batch[n].Err = i.newRenewal(ctx, b.Token, b.TTL); batch[n].Err == nil {
			commands = append(commands, renewals[n].command)
		}
	}
	go sendBatch(ctx, i.Client, commands)
	for n, r := range renewals {
		if r != nil {
			batch[n].Until, batch[n].Err = i.renewed(ctx, r)
		}
	}
}
