package redisquorum

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	defaultPrefix = "fencepost"
	defaultMaxTTL = time.Minute
	leastNodes    = 3
	leastTTL      = 10 * time.Millisecond
)

// quorum is an Issuer's settings with the defaults put in, and what it has
// learned of its nodes.
type quorum struct {
	nodes  []*node // in the order of their names
	need   int     // how many are a majority
	names  []string
	prefix string
	member string // the keys of marker and note
	blank  string
	maxTTL time.Duration
	known  atomic.Pointer[charter]
}

type node struct {
	name       string
	index      int
	client     redis.UniversalClient
	recovering atomic.Bool
	behind     atomic.Int32 // requests that nobody waits for any more
}

func newQuorum(i *Issuer) (*quorum, error) {
	q := &quorum{
		names: slices.Sorted(maps.Keys(i.Nodes)), need: len(i.Nodes)/2 + 1,
		prefix: i.Prefix, maxTTL: i.MaxTTL.Truncate(time.Millisecond),
	}
	if q.prefix == "" {
		q.prefix = defaultPrefix
	}
	q.member, q.blank = q.key("member"), q.key("blank")
	if i.MaxTTL == 0 {
		q.maxTTL = defaultMaxTTL
	}
	if q.maxTTL < leastTTL {
		return nil, fmt.Errorf("redisquorum: MaxTTL %s is less than %s", i.MaxTTL, leastTTL)
	}
	if len(q.names) < leastNodes {
		return nil, fmt.Errorf("redisquorum: %d nodes, which must be %d or more", len(q.names), leastNodes)
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

// check refuses what is no independent node. That two clients are of one server
// is found out by its marker.
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

// drift is what is taken off a lease: clocks that run at rates up to one percent
// apart, and the milliseconds that Redis rounds to.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// quarantine is how long a blank node must not vote: until the last lease that
// it may have had a part in has ended.
func (q *quorum) quarantine() time.Duration { return q.maxTTL + drift(q.maxTTL) }
