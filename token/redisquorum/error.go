package redisquorum

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoMajority is found when fewer than a majority of the nodes answered as
// members of the quorum: they are down, cut off, or have lost their memory. The
// error says for each what is the matter with it.
var ErrNoMajority = errors.New("redisquorum: no majority of the nodes")

// errLate is what becomes of an acquisition that took longer than its ttl.
var errLate = fmt.Errorf("%w in time: it took longer than the ttl", ErrNoMajority)

// errSilent is for questions that all nodes have to answer.
var errSilent = errors.New("nodes that accept connections do not answer")

// blankError is the answer of a node without memory.
type blankError struct {
	note string        // since when, in the node's words
	left time.Duration // until it may recover
}

func (e *blankError) Error() string {
	if e.left <= 0 {
		return "it has no memory, and is about to recover from the others"
	}
	return fmt.Sprintf("it has no memory, and will not vote for another %s", e.left)
}

// stranger says what a node is that is no member of c. The charter is asked for
// again next time: the quorum may have been founded anew.
func (q *quorum) stranger(n *node, c *charter, marker string) error {
	q.known.CompareAndSwap(c, nil)
	other, name, err := parseMarker(marker)
	if err != nil {
		return err
	}
	if err := other.differs(name, n.name, q.names, q.maxTTL); err != nil {
		return err
	}
	return fmt.Errorf("it is in the quorum %s, not in %s", other.id, c.id)
}

// tally counts the nodes of which nothing is known, and why.
type tally struct{ errs []error }

func (t *tally) fail(err error) { t.errs = append(t.errs, err) }

// noMajority is the error where there were answers from so many nodes alone.
func (t *tally) noMajority(q *quorum, answered int) error {
	missing := len(q.nodes) - answered - len(t.errs)
	text := fmt.Sprintf("%d of %d answered", answered, len(q.nodes))
	if missing > 0 {
		text += fmt.Sprintf(", %d not in time", missing)
	}
	return fmt.Errorf("%w: %s: %w", ErrNoMajority, text, errors.Join(t.errs...))
}
