package redisquorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/token"
)

// Issuer is a [token.Issuer] on a quorum of Redis servers. It is safe for concurrent use.
// Its fields must not change after first use. It must not be copied.
//
// Every method returns when its ctx ends, with [context.Cause]; the requests may still
// take effect on servers after that. If ctx has already ended, a method sends nothing. If
// too few nodes reply, the error is [ErrNoMajority].
type Issuer struct {
	// Nodes are the servers, three or more, each under the name that all programs use for
	// it: printable ASCII without spaces and commas. A name identifies a place in the
	// quorum, not an address; two servers must never have the same name at the same time.
	// An odd number of nodes is best: four tolerate no more failures than three. The
	// Issuer does not close the clients.
	Nodes map[string]redis.UniversalClient
	// Prefix is the prefix of every key, before ":quorum:". Empty means "fencepost".
	Prefix string
	// MaxTTL is the longest ttl that a caller may request, in whole milliseconds. It is
	// also how long a node that has lost its memory does not vote. It is part of the
	// quorum: all programs must use the same value. Zero means one minute; less than 10
	// ms is an error.
	MaxTTL time.Duration
	// Durable is read by Bootstrap only. It declares that every node stores each write
	// before it replies, so that the write survives the end of its process and machine:
	// appendonly yes, appendfsync always, and no replica that takes over. A restart of a
	// node then loses no memory. False means that every restart counts as a loss of
	// memory.
	Durable bool

	once sync.Once
	q    *quorum
	err  error
}

var (
	_ token.Issuer       = (*Issuer)(nil)
	_ token.Recoverer    = (*Issuer)(nil)
	_ token.BatchRenewer = (*Issuer)(nil)
	_ token.Inspector    = (*Issuer)(nil)
)

// begin returns the quorum and its config. It is the first step of every method.
func (i *Issuer) begin(ctx context.Context) (*quorum, *config, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	q, err := i.quorum()
	if err != nil {
		return nil, nil, err
	}
	c, err := q.config(ctx)
	return q, c, err
}

func (i *Issuer) quorum() (*quorum, error) {
	i.once.Do(func() { i.q, i.err = newQuorum(i) })
	return i.q, i.err
}

const (
	minNodes = 3
	minTTL   = 10 * time.Millisecond
	// buckets is the number of counters on a node. They are never deleted.
	buckets = 256
)

// quorum has an Issuer's settings with their defaults, and its nodes.
type quorum struct {
	nodes          []*node // sorted by name
	need           int     // the size of a majority
	names          []string
	prefix         string
	memberKey      string // the key of the marker
	unrecoveredKey string // the key of the note
	maxTTL         time.Duration
	timeouts
	known atomic.Pointer[config]
}

type node struct {
	name      string
	index     int
	client    redis.UniversalClient
	rejoining atomic.Bool
	abandoned atomic.Int32 // requests in flight whose callers have returned
}

func newQuorum(i *Issuer) (*quorum, error) {
	q := &quorum{
		names: slices.Sorted(maps.Keys(i.Nodes)), need: len(i.Nodes)/2 + 1,
		prefix: cmp.Or(i.Prefix, "fencepost"), maxTTL: cmp.Or(i.MaxTTL, time.Minute).Truncate(time.Millisecond),
		timeouts: timeouts{requestTimeout, stragglerTimeout, stallTimeout, retryPeriod},
	}
	q.memberKey, q.unrecoveredKey = q.key("member"), q.key("unrecovered")
	if q.maxTTL < minTTL {
		return nil, fmt.Errorf("redisquorum: MaxTTL %s is less than %s", i.MaxTTL, minTTL)
	}
	if len(q.names) < minNodes {
		return nil, fmt.Errorf("redisquorum: %d nodes, but at least %d are required", len(q.names), minNodes)
	}
	for index, name := range q.names {
		n := &node{name: name, index: index, client: i.Nodes[name]}
		if err := q.check(n); err != nil {
			return nil, fmt.Errorf("redisquorum: node %q %w", name, err)
		}
		q.nodes = append(q.nodes, n)
	}
	return q, nil
}

// check returns an error if n is not an independent node. Two clients of one server are
// detected later, by the server's marker.
func (q *quorum) check(n *node) error {
	switch n.client.(type) {
	case nil:
		return errors.New("has no client")
	case *redis.Ring:
		return errors.New("is a Ring, which moves keys to other servers")
	case *redis.ClusterClient:
		return errors.New("is a Cluster, which fails over by itself")
	}
	if n.name == "" || strings.ContainsFunc(n.name, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
		return errors.New("has a name that is not of printable ASCII without spaces and commas")
	}
	for _, other := range q.nodes {
		if other.client == n.client {
			return fmt.Errorf("has the client of %q", other.name)
		}
	}
	return nil
}

// wholeMilliseconds checks ttl and rounds it down to whole milliseconds.
func (q *quorum) wholeMilliseconds(ttl time.Duration) (time.Duration, error) {
	if ttl < minTTL || ttl > q.maxTTL {
		return 0, fmt.Errorf("ttl %s is not between %s and the quorum's MaxTTL %s", ttl, minTTL, q.maxTTL)
	}
	return ttl.Truncate(time.Millisecond), nil
}

// drift is subtracted from a lease: clocks may differ in rate by one percent, and Redis
// rounds to milliseconds.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// quarantine is how long an unrecovered node must not vote: until every lease for which
// it may have voted has ended.
func (q *quorum) quarantine() time.Duration { return q.maxTTL + drift(q.maxTTL) }

// The names of the keys are part of the format: all programs compute the same names.

func (q *quorum) key(name string) string { return q.prefix + ":quorum:" + name }

func (q *quorum) lock(resource string) string { return q.key("lock:" + resource) }

func (q *quorum) counter(resource string) string {
	return q.bucket(int(crc32.ChecksumIEEE([]byte(resource)) % buckets))
}

func (q *quorum) bucket(n int) string { return q.key("counter:" + strconv.Itoa(n)) }

// counters returns the keys of all counters, in the order of the buckets.
func (q *quorum) counters() []string {
	keys := make([]string, buckets)
	for n := range keys {
		keys[n] = q.bucket(n)
	}
	return keys
}
