package redisquorum

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/token"
)

// defeat says why there was no majority of votes: somebody has one, or nobody,
// and then it is worth another attempt.
func (b *ballot) defeat() error {
	var first string
	for name, other := range b.rivals {
		leader := b.rivals[first]
		if leader == nil || other.votes > leader.votes || other.votes == leader.votes && name < first {
			first = name
		}
	}
	leader := b.rivals[first]
	switch {
	case leader != nil && leader.votes >= b.need:
		return b.held(first)
	case len(b.failed.errs) > len(b.nodes)-b.need && time.Now().Before(b.until):
		return b.failed.noMajority(b.quorum, b.answers)
	case leader != nil:
		return b.split(b.held(first), leader.votes)
	}
	return b.again(errors.Join(errLate, b.failed.noMajority(b.quorum, b.answers)))
}

func (b *ballot) held(holder string) *token.HeldError {
	return &token.HeldError{Resource: b.resource, Holder: holder, Remaining: b.rivals[holder].remaining}
}

// split makes one of those who divide the nodes among them come again first, and
// the others later: the one with most votes, or else the first by name.
func (b *ballot) split(held *token.HeldError, most int) error {
	_ = b.again(held)
	if b.votes > most || b.votes == most && b.holder < held.Holder {
		b.pause /= 4
	}
	return held
}

// again is for an attempt that the next one may do better than.
func (b *ballot) again(err error) error {
	const least, longest = 4 * time.Millisecond, 200 * time.Millisecond
	b.pause = min(max(3*time.Since(b.sent), least), longest)
	return err
}
