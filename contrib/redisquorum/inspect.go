package redisquorum

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/token"
)

var errNotMember = errors.New("it is no member of this quorum, or has lost its memory")

// Inspect implements [token.Inspector]. The holder is the one at a majority of the nodes,
// and the lease lasts as long as at a majority. If the nodes that reply cannot tell whether
// a majority has a holder, the error is [ErrNoMajority]. The number is the last one of the
// resource's bucket, which may be of an acquisition that failed.
func (i *Issuer) Inspect(ctx context.Context, resource string) (s token.State, err error) {
	q, c, err := i.begin(ctx)
	if err == nil {
		s, err = q.state(ctx, c, resource)
	}
	if err != nil {
		return token.State{}, fmt.Errorf("redisquorum: inspect %s: %w", resource, err)
	}
	return s, nil
}

func (q *quorum) state(ctx context.Context, c *config, resource string) (token.State, error) {
	s := token.State{Resource: resource}
	left, answered, most := map[string][]int64{}, 0, 0
	request := func(ctx context.Context, n *node) reply {
		if n.abandoned.Load() >= maxAbandoned {
			return reply{err: errHanging}
		}
		keys := []string{q.memberKey, q.unrecoveredKey, q.lock(resource), q.counter(resource)}
		r := parseReply(inspectScript.Run(ctx, n.client, keys, c.markers[n.index], c.durability()).Result())
		if r.word == "stranger" {
			return reply{err: errNotMember}
		}
		return r.expect(3, "state")
	}
	isFree := func() bool { return answered >= q.need && most+len(q.nodes)-answered < q.need }
	failed, err := q.collect(ctx, q.request, request, func(_ *node, r reply) (bool, error) {
		numbers, err := r.numbers(2, q.counter(resource))
		if err != nil {
			return false, err
		}
		answered++
		s.Number = max(s.Number, numbers[0])
		if holder := r.text(0); holder != "" {
			left[holder] = append(left[holder], r.integer(1))
			if most = max(most, len(left[holder])); len(left[holder]) == q.need {
				s.Holder = holder
			}
		}
		return s.Holder != "" || isFree(), nil
	})
	switch {
	case err != nil:
		return s, err
	case s.Holder == "" && !isFree():
		return s, failed.noMajority(q, answered)
	case s.Holder != "":
		ends := left[s.Holder]
		slices.Sort(ends)
		s.Remaining = milliseconds(ends[len(ends)-q.need])
	}
	return s, nil
}

var escapeGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// Locks implements [token.Inspector]. It finds the keys by SCAN at a majority of the nodes,
// and then inspects each resource.
func (i *Issuer) Locks(ctx context.Context, prefix string) iter.Seq2[token.State, error] {
	return func(yield func(token.State, error) bool) {
		q, _, err := i.begin(ctx)
		names := map[string]bool{}
		if err == nil {
			err = q.majority(ctx, func(ctx context.Context, n *node) (r reply) {
				if n.abandoned.Load() >= maxAbandoned {
					return reply{err: errHanging}
				}
				keys := n.client.Scan(ctx, 0, escapeGlob.Replace(q.lock(prefix))+"*", 1000).Iterator()
				for keys.Next(ctx) {
					r.parts = append(r.parts, strings.TrimPrefix(keys.Val(), q.lock("")))
				}
				r.err = keys.Err()
				return r
			}, func(r reply) error {
				for n := range r.parts {
					names[r.text(n)] = true
				}
				return nil
			})
		}
		if err != nil {
			yield(token.State{}, fmt.Errorf("redisquorum: locks: %w", err))
			return
		}
		for name := range names {
			s, err := i.Inspect(ctx, name)
			if (err != nil || s.Holder != "") && (!yield(s, err) || err != nil) {
				return
			}
		}
	}
}
