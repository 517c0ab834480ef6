package lock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

const (
	defaultInterval = time.Second
	// readTimeout bounds one read of an Observer, so that a server that has stopped does not
	// make an old leader look like the present one.
	readTimeout = 5 * time.Second
)

// Observer reads which candidate leads. It takes no part in the election.
//
// What it reads is a hint, for example where to send a request. The leader may have changed
// by the time the caller reads it, and a leader that was killed is read until its lease has
// ended. Only the guard of a write decides.
type Observer struct {
	// Inspector is the issuer of the candidates. All issuers of Fencepost are Inspectors.
	Inspector token.Inspector
	// Resource is the Resource of the candidates.
	Resource string
	// Interval is the time between two reads of All, on average: each pause is longer or
	// shorter by up to a half, so that many observers do not read at once. Zero means 1 s.
	Interval time.Duration
}

// Leader is the state of an election.
type Leader struct {
	// Number rises from leader to leader, as the numbers of their tokens do. It need not be
	// that of the leader's token: see [token.State]. An acquisition whose reply was lost is
	// repeated under the same Holder, and can get a greater number.
	Number int64
	// Holder is the holder of the leader's token, or empty if there is no leader.
	Holder string
	// Value is the leader's [Candidate.Value]. It is the whole Holder if that was not made by
	// a Locker.
	Value string
	// Remaining is how long the leader's lease lasts from the read if it is not renewed.
	Remaining time.Duration
}

// Leader reads the state once. If the issuer does not answer within 5 s, the error is
// [token.ErrUnreachable]. Other errors are those of [token.Inspector]'s Inspect. A read from
// a server that is behind, such as a replica, can have a lower Number than the one before.
func (o *Observer) Leader(ctx context.Context) (Leader, error) {
	if o.Inspector == nil {
		return Leader{}, errors.New("lock: Observer has no Inspector")
	}
	if err := token.ValidateResource(o.Resource); err != nil {
		return Leader{}, err
	}
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s, err := o.Inspector.Inspect(reading, o.Resource)
	switch {
	case err == nil:
		return Leader{s.Number, s.Holder, nameOf(s.Holder), s.Remaining}, nil
	case ctx.Err() != nil:
		return Leader{}, context.Cause(ctx)
	case reading.Err() != nil:
		err = errNoReply
	}
	return Leader{}, fmt.Errorf("lock: observe %s: %w", o.Resource, err)
}

// All reads until ctx ends, and yields the leader at the first read, whenever Holder
// changes, and at the first read after an error. A Leader without a Holder means that there
// is none.
//
// Number never falls: All yields no state that is older than one it has read, as a server
// that is behind returns it. After an issuer has lost its memory, All may therefore yield
// nothing until the numbers have reached the last one again.
//
// All yields an error for each read that fails, with a zero Leader: what it yielded before may be
// out of date by now. It goes on after [token.ErrUnreachable], at the same Interval, since a
// slower pace would only prolong the error. It ends after any other error. When ctx ends, it
// ends without one.
func (o *Observer) All(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		interval := o.Interval
		if interval <= 0 {
			interval = defaultInterval
		}
		var last Leader
		for known := false; ctx.Err() == nil; sleep(ctx, jitter(interval)) {
			now, err := o.Leader(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				known = false
				if !yield(Leader{}, err) || !errors.Is(err, token.ErrUnreachable) {
					return
				}
			case now.Number < last.Number: // from a server that is behind
			case known && now.Holder == last.Holder:
				last = now
			default:
				known, last = true, now
				if !yield(now, nil) {
					return
				}
			}
		}
	}
}

// nameOf returns the name in a holder that newHolder has made.
func nameOf(holder string) string {
	_, name, _ := strings.Cut(holder, "/")
	for range 2 { // the sequence number and the random part
		name = name[:max(strings.LastIndexByte(name, ':'), 0)]
	}
	if name == "" {
		return holder
	}
	return name
}
