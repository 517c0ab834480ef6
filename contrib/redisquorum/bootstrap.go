package redisquorum

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Bootstrap makes the nodes a quorum. An operator calls it once, before any program uses
// the quorum. The call asserts that no lease of this quorum is alive, since servers that
// have all lost their memory look like new servers. So programs must not call it when
// they start.
//
// All nodes must reply. If a majority of them are members, Bootstrap returns an error and
// changes nothing: the others recover by themselves. If some are or were members, or
// programs have found them unrecovered, Bootstrap restores a quorum that has lost its
// majority. It then returns an error until MaxTTL has passed since the loss was first
// recorded, by a program or by Bootstrap itself; the error contains the remaining time.
// Numbers continue from the highest counter of any node, or from the clock.
//
// If Bootstrap fails half-way, or two calls run at once, call it again. It returns an
// error if two nodes are databases of one server.
func (i *Issuer) Bootstrap(ctx context.Context) error {
	q, err := i.quorum()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = q.bootstrap(ctx, i.Durable)
	}
	if err != nil {
		return fmt.Errorf("redisquorum: bootstrap: %w", err)
	}
	return nil
}

func (q *quorum) bootstrap(ctx context.Context, isDurable bool) error {
	states, err := q.inspect(ctx, "")
	if err == nil && slices.ContainsFunc(states, func(s nodeState) bool { return s.word != "fresh" }) {
		// A node that looks new has also lost its memory. The second request records
		// that.
		states, err = q.inspect(ctx, "not new")
	}
	if err != nil {
		return err
	}
	c, err := q.chooseConfig(states, isDurable)
	if err != nil {
		return err
	}
	if err := q.checkQuarantine(states); err != nil {
		return err
	}
	return q.createQuorum(ctx, c.withMarkers(), states)
}

// nodeState is the state in which Bootstrap finds a node.
type nodeState struct {
	word     string        // member, fresh or unrecovered
	age      time.Duration // how long an unrecovered node has been so
	text     string        // the marker of a member, or the note of an unrecovered node
	runID    string        // the run id of its server
	counters []int64
}

// inspect returns the states of all nodes. If notNew is not empty, the quorum has existed
// before: a node that looks new has lost its memory, and records that now.
func (q *quorum) inspect(ctx context.Context, notNew string) ([]nodeState, error) {
	states := make([]nodeState, len(q.nodes))
	err := q.each(ctx, func(ctx context.Context, n *node) error {
		r := q.runBootstrap(ctx, n, "", "", "", notNew).expect(3+buckets, "member", "unrecovered", "fresh")
		if r.err != nil {
			return r.err
		}
		counters, err := r.numbers(3, q.counters()...)
		states[n.index] = nodeState{r.word, milliseconds(r.integer(0)), r.text(1), r.text(2), counters}
		return err
	})
	if err != nil {
		return nil, err // without states, to which requests in flight may still write
	}
	for n, s := range states {
		for other := range n {
			if states[other].runID == s.runID {
				return nil, fmt.Errorf("nodes %s and %s are one server", q.nodes[other].name, q.nodes[n].name)
			}
		}
	}
	return states, nil
}

func (q *quorum) runBootstrap(ctx context.Context, n *node, args ...any) reply {
	keys := append([]string{q.memberKey, q.unrecoveredKey}, q.counters()...)
	return parseReply(bootstrapScript.Run(ctx, n.client, keys, args...).Result())
}

// chooseConfig returns the config of the members, or a new one if there are none.
func (q *quorum) chooseConfig(states []nodeState, isDurable bool) (*config, error) {
	c := &config{id: rand.Text(), maxTTL: q.maxTTL, memory: volatile, names: q.names}
	if isDurable {
		c.memory = durable
	}
	members := 0
	for _, n := range q.nodes {
		s := states[n.index]
		if s.word != "member" {
			continue
		}
		found, err := q.parseConfig(n, s.text)
		if err == nil && members > 0 && found.id != c.id {
			err = fmt.Errorf("it is in the quorum %s, another in %s: delete the key %s of one", found.id, c.id, q.memberKey)
		}
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.name, err)
		}
		c = found
		members++
	}
	if members >= q.need {
		return nil, fmt.Errorf("there is a quorum: %d of %d nodes are members", members, len(q.nodes))
	}
	return c, nil
}

// checkQuarantine returns an error while a lease for which an unrecovered node voted may
// be alive.
func (q *quorum) checkQuarantine(states []nodeState) error {
	var left time.Duration
	for _, s := range states {
		if s.word == "unrecovered" {
			left = max(left, q.quarantine()-s.age)
		}
	}
	if left > 0 {
		return fmt.Errorf("nodes have lost their memory: leases may be alive for another %s", left)
	}
	return nil
}

// createQuorum writes the markers. The quorum exists when a majority has them. If a new
// quorum gets no majority, createQuorum removes the markers, so that the next Bootstrap
// does not find them.
func (q *quorum) createQuorum(ctx context.Context, c *config, states []nodeState) error {
	var members atomic.Int64
	err := q.each(ctx, func(ctx context.Context, n *node) error {
		r := q.runBootstrap(ctx, n, q.initArgs(c, n, states)...)
		if r.word != "member" || !strings.HasPrefix(r.text(1), c.markers[n.index]) {
			r = r.expect(0, "joined")
		}
		if r.err == nil {
			members.Add(1)
		}
		return r.err
	})
	if had := int(members.Load()); had >= q.need {
		q.known.Store(c)
		if err != nil {
			err = fmt.Errorf("%d of %d nodes are members, and the others will recover: %w", had, len(q.nodes), err)
		}
	} else if !slices.ContainsFunc(states, func(s nodeState) bool { return s.word == "member" }) {
		q.retract(ctx, c)
	}
	return err
}

// initArgs returns the ARGV with which bootstrap.lua makes n a member.
func (q *quorum) initArgs(c *config, n *node, states []nodeState) []any {
	args := []any{c.markers[n.index], c.durability(), q.quarantine().Milliseconds(), states[n.index].text}
	for i := range buckets {
		highest := int64(0)
		for _, s := range states {
			highest = max(highest, s.counters[i])
		}
		args = append(args, highest)
	}
	return args
}

func (q *quorum) retract(ctx context.Context, c *config) {
	_ = q.each(context.WithoutCancel(ctx), func(ctx context.Context, n *node) error {
		return retractScript.Run(ctx, n.client, []string{q.memberKey}, c.markers[n.index]).Err()
	})
}
