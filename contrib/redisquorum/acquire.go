package redisquorum

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/token"
)

// retryPeriod is how long an Acquire starts new attempts if no caller has won the earlier
// ones, or if they took too long.
const retryPeriod = time.Second

// Acquire implements [token.Issuer]. The ttl is rounded down to whole milliseconds. It
// must be at least 10 ms and at most MaxTTL. If holder has the lock already, it gets a
// new number. If several callers acquire at once and none gets a majority, Acquire
// retries for up to a second. It releases in the background what a minority granted.
// [token.HeldError.Remaining] is the remaining time of the holder's longest lock.
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := (token.Token{Resource: resource, Number: 1, Holder: holder}).Validate(); err != nil {
		return token.Grant{}, err
	}
	grant, err := i.acquire(ctx, resource, holder, ttl)
	if err != nil && !errors.Is(err, token.ErrHeld) {
		err = fmt.Errorf("redisquorum: acquire %s: %w", resource, err)
	}
	return grant, err
}

func (i *Issuer) acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	q, c, err := i.begin(ctx)
	if err != nil {
		return token.Grant{}, err
	}
	if ttl, err = q.wholeMilliseconds(ttl); err != nil {
		return token.Grant{}, err
	}
	for times, start := time.Duration(1), time.Now(); ; times *= 2 {
		a := q.newAttempt(c, resource, holder, ttl)
		grant, err := a.run(ctx)
		pause := times * (a.retryAfter/2 + rand.N(a.retryAfter+1))
		if err == nil || a.retryAfter == 0 || time.Since(start)+pause > q.retry {
			return grant, err
		}
		select {
		case <-ctx.Done():
			return token.Grant{}, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// attempt is one attempt to acquire. Its locks contain its id, so that a late request of
// the attempt does not change the lock of a later attempt, even of the same holder.
type attempt struct {
	*quorum
	config           *config
	resource, holder string
	lockValue        string
	ttl              time.Duration
	sent, until      time.Time

	answered  int   // nodes that voted for any holder
	votes     int   // nodes that locked for this attempt
	highest   int64 // the highest of their counters
	clocks    []int64
	conflicts map[string]*conflict // by holder
	failed    failures
	// lockDone is closed for each node when its first round is over. refused is true for
	// a node that has nothing to withdraw. unsent is true, once lockDone is closed, for a
	// node to which nothing was sent.
	lockDone   []chan struct{}
	refused    []bool
	unsent     []bool
	retryAfter time.Duration // zero if another attempt cannot help
}

// conflict is another holder that nodes have reported.
type conflict struct {
	votes     int
	remaining time.Duration
}

// attemptIDs is the id of the last attempt. Ids rise within this process and across its
// restarts. Nineteen digits are enough until 2286.
var attemptIDs atomic.Int64

func init() { attemptIDs.Store(time.Now().UnixNano()) }

func (q *quorum) newAttempt(c *config, resource, holder string, ttl time.Duration) *attempt {
	a := &attempt{
		quorum: q, config: c, resource: resource, holder: holder, ttl: ttl, sent: time.Now(),
		lockValue: fmt.Sprintf("%019d %s", attemptIDs.Add(1), holder),
		conflicts: map[string]*conflict{}, refused: make([]bool, len(q.nodes)), unsent: make([]bool, len(q.nodes)),
	}
	a.until = a.sent.Add(ttl - drift(ttl))
	for range q.nodes {
		a.lockDone = append(a.lockDone, make(chan struct{}))
	}
	return a
}

// run makes both rounds. The number is minted between them, above the counters of a
// majority. It is valid when a majority has stored it while the lock was still this
// attempt's. Every later majority then contains a node that has the number, and the
// resource cannot have been granted to another caller in the meantime.
func (a *attempt) run(ctx context.Context) (token.Grant, error) {
	var err error
	a.failed, err = a.collect(ctx, time.Until(a.until), a.lockNode, a.countVote)
	if err == nil && a.votes < a.need {
		err = a.notElected()
	}
	var tok token.Token
	if err == nil {
		tok, err = a.mint()
	}
	if err == nil {
		err = a.write(ctx, tok.Number)
	}
	if err == nil && !time.Now().Before(a.until) {
		err = a.retryable(errLate)
	}
	if err != nil {
		a.withdraw(ctx)
		return token.Grant{}, err
	}
	return token.Grant{Token: tok, Until: a.until}, nil
}

// lockNode runs the first round at one node.
func (a *attempt) lockNode(ctx context.Context, n *node) reply {
	defer close(a.lockDone[n.index])
	keys := []string{a.lock(a.resource), a.counter(a.resource)}
	r := a.call(ctx, a.config, n, acquireScript, keys, a.lockValue[:19], a.holder, a.ttl.Milliseconds())
	a.unsent[n.index] = errors.Is(r.err, errHanging)
	return r
}

// countVote counts a reply of the first round. It reports whether the round is decided.
func (a *attempt) countVote(n *node, r reply) (decided bool, err error) {
	if r.word == "held" {
		a.refused[n.index] = true
	}
	if r = r.expect(2, "granted", "held"); r.err != nil {
		return false, r.err
	}
	if r.word == "held" {
		a.answered++
		return a.countConflict(r), nil
	}
	numbers, err := r.numbers(0, a.counter(a.resource))
	if err != nil {
		return false, err
	}
	a.answered++
	a.votes++
	a.highest = max(a.highest, numbers[0])
	a.clocks = append(a.clocks, numbers[1])
	return a.votes >= a.need, nil
}

func (a *attempt) countConflict(r reply) (decided bool) {
	other := a.conflicts[r.text(0)]
	if other == nil {
		other = &conflict{}
		a.conflicts[r.text(0)] = other
	}
	other.votes++
	other.remaining = max(other.remaining, remaining(r.integer(1)))
	return other.votes >= a.need
}

// remaining converts the reply of PTTL, which is negative for a key without expiry.
func remaining(ms int64) time.Duration {
	if ms < 0 {
		return math.MaxInt64
	}
	return max(milliseconds(ms), time.Millisecond)
}

// mint returns a number above the highest counter, and not below the clock. The clock is
// the median of the nodes' clocks, so that one node whose clock is far ahead does not
// raise all numbers.
func (a *attempt) mint() (token.Token, error) {
	slices.Sort(a.clocks)
	number := max(a.highest+1, a.clocks[(len(a.clocks)-1)/2])
	if number > token.MaxNumber {
		return token.Token{}, token.ErrExhausted
	}
	return token.Token{Resource: a.resource, Number: number, Holder: a.holder}, nil
}

// write runs the second round: it stores number at a majority. A node that has lost the lock
// counts as failed, so that the two together decide.
func (a *attempt) write(ctx context.Context, number int64) error {
	written := 0
	keys := []string{a.lock(a.resource), a.counter(a.resource)}
	request := func(ctx context.Context, n *node) reply {
		return a.call(ctx, a.config, n, writeScript, keys, a.lockValue, number).expect(0, "written", "lost")
	}
	failed, err := a.collect(ctx, time.Until(a.until), request, func(_ *node, r reply) (bool, error) {
		if r.word == "lost" {
			return false, token.ErrLost
		}
		written++
		return written >= a.need, nil
	})
	answered := written + len(failed)
	failed = slices.DeleteFunc(failed, func(err error) bool { return errors.Is(err, token.ErrLost) })
	switch {
	case err != nil:
		return err
	case written >= a.need:
		return nil
	case len(failed) > len(a.nodes)-a.need:
		return failed.noMajority(a.quorum, answered-len(failed))
	}
	return a.retryable(errLate)
}

// withdraw removes, in the background, the locks that the first round has set or may have
// set, since they would block other callers' attempts.
func (a *attempt) withdraw(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, n := range a.nodes {
		if a.refused[n.index] {
			continue
		}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, a.ttl)
			defer cancel()
			// A withdrawal that arrives before the first round would remove nothing.
			<-a.lockDone[n.index]
			if a.unsent[n.index] {
				return // without this, each attempt would leave a request at a node that hangs
			}
			withdrawScript.Run(ctx, n.client, []string{a.lock(a.resource)}, a.lockValue)
		}()
	}
}

// notElected returns the reason for which the attempt has no majority of votes. If no
// other holder has a majority either, it schedules a retry.
func (a *attempt) notElected() error {
	var first string
	for name, other := range a.conflicts {
		leader := a.conflicts[first]
		if leader == nil || other.votes > leader.votes || other.votes == leader.votes && name < first {
			first = name
		}
	}
	leader := a.conflicts[first]
	switch {
	case leader != nil && leader.votes >= a.need:
		return a.held(first)
	case len(a.failed) > len(a.nodes)-a.need && time.Now().Before(a.until):
		return a.failed.noMajority(a.quorum, a.answered)
	case leader != nil:
		return a.splitVote(a.held(first), leader.votes)
	}
	return a.retryable(errors.Join(errLate, a.failed.noMajority(a.quorum, a.answered)))
}

func (a *attempt) held(holder string) *token.HeldError {
	return &token.HeldError{Resource: a.resource, Holder: holder, Remaining: a.conflicts[holder].remaining}
}

// splitVote schedules the retry after a split vote. The holder with the most votes, or
// the first by name if two have the same number, retries before the others.
func (a *attempt) splitVote(held *token.HeldError, most int) error {
	_ = a.retryable(held)
	if a.votes > most || a.votes == most && a.holder < held.Holder {
		a.retryAfter /= 4
	}
	return held
}

// retryable schedules another attempt, and returns err.
func (a *attempt) retryable(err error) error {
	const shortest, longest = 4 * time.Millisecond, 200 * time.Millisecond
	a.retryAfter = min(max(3*time.Since(a.sent), shortest), longest)
	return err
}
