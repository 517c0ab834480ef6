package redisquorum

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/token"
)

// ballot is one attempt to acquire. Its locks bear its number, so that what it
// does late meets no lock of a later attempt, not even of the same holder.
type ballot struct {
	*quorum
	agreed           *charter
	resource, holder string
	value            string // of its locks
	ttl              time.Duration
	sent, until      time.Time

	answers int   // nodes that vote, for whomever
	votes   int   // those that lock for it
	highest int64 // of their counters
	clocks  []int64
	rivals  map[string]*rival
	failed  tally
	// answered is closed for each node when the first round is over there; refused
	// says who has nothing to take back.
	answered []chan struct{}
	refused  []bool
	pause    time.Duration // until another attempt makes sense; 0 where none does
}

// rival is another holder, as the nodes tell of it.
type rival struct {
	votes     int
	remaining time.Duration
}

// ballots numbers them: greater than those of this process before, and of the
// one that was here before a restart. Nineteen digits last until 2286.
var ballots atomic.Int64

func init() { ballots.Store(time.Now().UnixNano()) }

func (q *quorum) newBallot(c *charter, resource, holder string, ttl time.Duration) *ballot {
	b := &ballot{
		quorum: q, agreed: c, resource: resource, holder: holder, ttl: ttl, sent: time.Now(),
		value:  fmt.Sprintf("%019d %s", ballots.Add(1), holder),
		rivals: map[string]*rival{}, refused: make([]bool, len(q.nodes)),
	}
	b.until = b.sent.Add(ttl - drift(ttl))
	for range q.nodes {
		b.answered = append(b.answered, make(chan struct{}))
	}
	return b
}

// cast takes both rounds. The number is minted between them, above what a
// majority knows, and is good when a majority has written it down where the lock
// was still this ballot's: of any later majority one node then knows it, and
// nobody can have been granted the resource meanwhile.
func (b *ballot) cast(ctx context.Context) (token.Grant, error) {
	err := b.poll(ctx, time.Until(b.until), b.ask, b.count)
	if err == nil && b.votes < b.need {
		err = b.defeat()
	}
	var tok token.Token
	if err == nil {
		tok, err = b.mint()
	}
	if err == nil {
		err = b.write(ctx, tok.Number)
	}
	if err == nil && !time.Now().Before(b.until) {
		err = b.again(errLate)
	}
	if err != nil {
		b.withdraw(ctx)
		return token.Grant{}, err
	}
	return token.Grant{Token: tok, Until: b.until}, nil
}

// mint counts on from the greatest counter. The clock is the floor; the middle
// one, so that one node's clock that runs far ahead lifts nobody's numbers.
func (b *ballot) mint() (token.Token, error) {
	slices.Sort(b.clocks)
	number := max(b.highest+1, b.clocks[(len(b.clocks)-1)/2])
	if number > token.MaxNumber {
		return token.Token{}, token.ErrExhausted
	}
	return token.Token{Resource: b.resource, Number: number, Holder: b.holder}, nil
}
