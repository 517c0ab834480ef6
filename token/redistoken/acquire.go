package redistoken

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
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
	sent := time.Now()
	i.state.mayExtend(k.lock, holder, sent.Add(ttl))
	reply, err := i.run(ctx, acquireScript, k, holder, ttl.Milliseconds())
	return i.acquired(ctx, k, holder, ttl, sent, reply, err)
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

// acquired converts the reply of acquire.lua to a grant.
func (i *Issuer) acquired(
	ctx context.Context, k *keys, holder string, ttl time.Duration, sent time.Time, reply any, err error,
) (token.Grant, error) {
	if err != nil {
		return token.Grant{}, fmt.Errorf("redistoken: acquire %s: %w", k.resource, err)
	}
	number, refused, err := parseGrant(reply, k.resource)
	switch {
	case err != nil:
		return token.Grant{}, fmt.Errorf("redistoken: acquire %s: %w", k.resource, err)
	case refused != nil:
		return token.Grant{}, &refused.HeldError
	}
	tok := token.Token{Resource: k.resource, Number: number, Holder: holder}
	return i.replicated(ctx, k, token.Grant{Token: tok, Until: sent.Add(ttl)}, ttl)
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
	switch reply := reply.(type) {
	case int64:
		if reply > 0 {
			return reply, nil, nil
		}
		return 0, nil, token.ErrExhausted
	case []any:
		if err := parseCounterError(reply); err != nil {
			return 0, nil, err
		}
		r := &refusal{HeldError: token.HeldError{Resource: resource}}
		if len(reply) != 2 && len(reply) != 4 {
			break
		}
		holder, isText := reply[0].(string)
		ms, isInt := reply[1].(int64)
		r.Holder, r.Remaining = holder, remaining(ms)
		if len(reply) == 4 && isText && isInt {
			r.clock, isInt = reply[2].(int64)
			r.ticket, isText = reply[3].(string)
		}
		if isText && isInt {
			return 0, r, nil
		}
	}
	return 0, nil, unexpected(reply)
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

// parseCounterError returns the error in the reply of a script whose counter is not a
// number, and nil for any other reply.
func parseCounterError(reply []any) error {
	if len(reply) != 3 || reply[0] != int64(0) {
		return nil
	}
	key, isKey := reply[1].(string)
	holds, isText := reply[2].(string)
	if !isKey || !isText {
		return unexpected(reply)
	}
	return &counterError{key: key, holds: strings.ToValidUTF8(holds, "\uFFFD")}
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
	server, err := i.server(ctx, k)
	if err != nil {
		return time.Time{}, err
	}
	bound := max(min(ttl/3, maxReplicaWait), time.Millisecond) // a timeout of zero means no timeout to WAIT
	r, err := i.newRenewal(ctx, tok, ttl)
	if err != nil {
		return time.Time{}, err
	}
	have := make(chan int64, 1)
	go func() { have <- r.sendWithWait(ctx, server, i.Replicas, bound) }()
	if !r.arrived(ctx) {
		return time.Time{}, context.Cause(ctx)
	}
	reply, err := r.reply(ctx)
	until, err := i.renewed(r, reply, err)
	if n := <-have; err == nil && n < int64(i.Replicas) {
		err = fmt.Errorf("%w: %d of %d after %s", ErrReplicas, n, i.Replicas, bound)
	}
	return until, err
}

// server returns a client of the server that has k's keys. A pipeline of a ClusterClient
// could send WAIT to any node.
func (i *Issuer) server(ctx context.Context, k *keys) (redis.UniversalClient, error) {
	if cluster, ok := i.Client.(clusterClient); ok {
		return cluster.MasterForKey(ctx, k.lock)
	}
	return i.Client, nil
}

func unexpected(reply any) error { return fmt.Errorf("unexpected reply %v", reply) }

// Renew implements [token.Issuer]. The ttl is rounded down to whole milliseconds; less
// than one is an error. Renew returns [token.ErrLost] if the token's holder does not have
// the lock.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	r, err := i.newRenewal(ctx, tok, ttl)
	if err != nil {
		return time.Time{}, err
	}
	reply, err := i.do(ctx, r.command)
	return i.renewed(r, reply, err)
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
	i.state.mayExtend(k.lock, tok.Holder, until)
	return &renewal{newCommand(ctx, renewScript, k, tok.Holder, ttl.Milliseconds()), tok, k, until}, nil
}

// renewed converts the reply of renew.lua to the end of the lease.
func (i *Issuer) renewed(r *renewal, reply any, err error) (time.Time, error) {
	switch {
	case err != nil:
	case reply == int64(1):
		i.state.extend(r.keys.lock, r.tok.Holder, r.until)
		return r.until, nil
	case reply == int64(0):
		return time.Time{}, lost(r.tok)
	default:
		err = unexpected(reply)
	}
	return time.Time{}, fmt.Errorf("redistoken: renew %s: %w", r.tok, err)
}

// mayExtend records that holder may have the lock until the given time. It is called
// before a request that extends the lease is sent. Without it, a late notification that
// arrives after the old end and before the reply would release the lock.
func (s *waitState) mayExtend(lock, holder string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[lock]
	if q == nil {
		return
	}
	if held := q.held[holder]; held != nil && until.After(held.until) {
		held.until = until
	}
}

// extend records that holder has the lock until the given time.
func (s *waitState) extend(lock, holder string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[lock]
	if q == nil {
		return
	}
	if held := q.held[holder]; held != nil {
		held.until = until
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
	for len(batch) > 0 {
		n := min(len(batch), maxBatch)
		i.renewBatch(ctx, batch[:n])
		batch = batch[n:]
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
	if len(commands) == 0 {
		return
	}
	go i.sendBatch(ctx, commands)
	arrived := commands[len(commands)-1].arrived(ctx) // sendBatch closes the last one's done last
	for n, r := range renewals {
		if r == nil {
			continue
		}
		reply, err := any(nil), context.Cause(ctx)
		if arrived {
			reply, err = r.reply(ctx)
		}
		batch[n].Until, batch[n].Err = i.renewed(r, reply, err)
	}
}

// lost returns the error for a token whose holder does not have the lock.
func lost(tok token.Token) error {
	return fmt.Errorf("redistoken: %s: %w", tok, token.ErrLost)
}
