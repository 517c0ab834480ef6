package redisquorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/outage"
	"github.com/fencepost/fencepost/token"
)

// ErrNoMajority is returned when fewer nodes than a majority replied as members of the
// quorum: the others are down, unreachable, or have lost their memory. The error contains
// the reason for each of them.
var ErrNoMajority = errors.New("redisquorum: no majority of the nodes")

var (
	// errLate is returned when an acquisition took longer than its ttl.
	errLate = fmt.Errorf("%w: %w in time: it took longer than the ttl", token.ErrUnreachable, ErrNoMajority)
	// errUnresponsive is returned when an operation needs all nodes and not all have
	// replied.
	errUnresponsive = errors.New("nodes that accept connections do not reply")
	// errHanging is returned for a node with maxAbandoned requests in flight.
	errHanging = errors.New("it hangs: too many requests are open")
)

// unrecoveredError is the reply of a node that has lost its memory.
type unrecoveredError struct {
	note string        // the node's record of when its loss was found
	left time.Duration // until it may recover; not positive if it may now
}

func (e *unrecoveredError) Error() string {
	if e.left <= 0 {
		return "it has lost its memory, and is about to recover"
	}
	return fmt.Sprintf("it has lost its memory, and will not vote for another %s", e.left)
}

// mismatch returns the reason for which a node is not a member of c. It clears the cached
// config, since the quorum may have been bootstrapped again.
func (q *quorum) mismatch(n *node, c *config, marker string) error {
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

// failures are the errors of the nodes that did not reply as members.
type failures []error

// noMajority returns the error for a call to which answered nodes replied as members.
func (f failures) noMajority(q *quorum, answered int) error {
	missing := len(q.nodes) - answered - len(f)
	text := fmt.Sprintf("%d of %d answered", answered, len(q.nodes))
	if missing > 0 {
		text += fmt.Sprintf(", %d not in time", missing)
	}
	err := fmt.Errorf("%w: %s", ErrNoMajority, text)
	if len(f) > 0 {
		err = fmt.Errorf("%w: %w", err, errors.Join(f...))
	}
	if answered+missing+f.temporary() >= q.need {
		err = fmt.Errorf("%w: %w", token.ErrUnreachable, err)
	}
	return err
}

// temporary counts the failed nodes that may reply as members later: they are unreachable
// or unrecovered. The others need an operator.
func (f failures) temporary() (n int) {
	for _, err := range f {
		var unrecovered *unrecoveredError
		if outage.Is(err) || errors.Is(err, errHanging) || errors.As(err, &unrecovered) {
			n++
		}
	}
	return n
}
