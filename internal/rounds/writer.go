package rounds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/token"
)

// Subject is what the writers do under a lock. Issuer, Resource, Do and TTL are required.
type Subject struct {
	Issuer   token.Issuer
	Resource string
	TTL      time.Duration
	// Do is one unit of work. Its context has the token. Unguarded, if not nil, takes its
	// place in the twin.
	Do, Unguarded func(context.Context) error
	// Claim, if not nil, raises the mark before Do.
	Claim func(context.Context, token.Token) error
}

// Open returns the subject that [Options] name, in the process of writer A or B. end releases
// it.
type Open func(ctx context.Context, writer, subject, conf string) (s Subject, end func() error, err error)

// writer is A or B, in its own process.
type writer struct {
	setup
	subject  Subject
	recorder *history.Recorder
	parent   *subprocess.Parent
}

// Serve runs a writer's process: it receives the setup and then orders, until the parent
// closes the input.
func Serve(parent *subprocess.Parent, open Open) (err error) {
	ctx := context.Background()
	w := &writer{parent: parent, recorder: history.NewRecorder()}
	if err := parent.Receive(&w.setup); err != nil {
		return err
	}
	report, err := os.OpenFile(w.Report, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer report.Close()
	w.recorder.Report(report)
	var end func() error
	if w.subject, end, err = open(ctx, w.Name, w.Subject, w.Conf); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	w.say(event{Kind: ready})
	err = subprocess.Each(parent, func(o order) error {
		if err := w.work(ctx, o); err != nil {
			w.say(event{Kind: failed, Answer: Answer{Text: err.Error()}})
		}
		return nil
	})
	return errors.Join(err, w.recorder.Err())
}

// say reports e.
func (w *writer) say(e event) {
	e.At = time.Now()
	w.parent.Report(e)
}

// ages is what a writer takes its lease's duration to be: the worst holder never notices
// that it has lost the lock.
const ages = time.Hour

// issuer is the subject's Issuer, which records its operations.
type issuer struct {
	*unit
	lost atomic.Int64 // the number of the token that is lost
}

var _ token.Issuer = (*issuer)(nil)

// Unwrap makes a Hold in the subject's code a nested one.
func (i *issuer) Unwrap() token.Issuer { return i.subject.Issuer }

func (i *issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if i.asked == 0 {
		if i.seen[stepAcquire] == 0 {
			i.pass(stepAcquire)
		}
		i.asked = i.recorder.Now()
	}
	op := i.op(history.Acquire)
	op.Number, op.Holder, op.Began = 0, holder, i.asked
	sent, began := time.Now(), i.recorder.Now()
	grant, err := i.subject.Issuer.Acquire(failpoint.Untraced(ctx), resource, holder, ttl)
	if errors.Is(err, token.ErrHeld) {
		return grant, err // retried soon: one request, which lasts until it is answered
	}
	i.asked = 0
	if op.Number = grant.Token.Number; err == nil {
		op.Until = began + grant.Until.Sub(sent)
	}
	op.Outcome, op.Ended = history.LockOutcomeOf(err), i.recorder.Now()
	i.recorder.Add(op)
	if err != nil {
		return grant, err
	}
	i.tok = grant.Token
	i.pass(stepGranted)
	return token.Grant{Token: grant.Token, Until: time.Now().Add(ages)}, nil
}

// Renew blocks for a token that is lost, so that its holder does not notice.
func (i *issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if i.lost.Load() == tok.Number {
		<-ctx.Done()
		return time.Time{}, context.Cause(ctx)
	}
	i.paused.RLock() // as if the process were stopped
	open := i.ask(history.Renew, tok)
	sent := time.Now()
	until, err := i.subject.Issuer.Renew(failpoint.Untraced(ctx), tok, ttl)
	i.paused.RUnlock()
	open.End(history.LockOutcomeOf(err), func(op *history.Op) {
		if err == nil {
			op.Until = op.Began + until.Sub(sent)
		}
	})
	switch {
	case errors.Is(err, token.ErrLost):
		i.lost.Store(tok.Number)
		return i.Renew(ctx, tok, ttl)
	case err != nil:
		return time.Time{}, err
	}
	return time.Now().Add(ages), nil
}

func (i *issuer) Release(ctx context.Context, tok token.Token) error {
	i.pass(stepRelease)
	open := i.ask(history.Release, tok)
	err := i.subject.Issuer.Release(failpoint.Untraced(ctx), tok)
	open.End(history.LockOutcomeOf(err), nil)
	return err
}

// ask records the request before it is sent: the writer may die before the reply.
func (i *issuer) ask(k history.Kind, tok token.Token) *history.Open {
	return i.recorder.Begin(history.Op{
		Kind: k, Writer: i.Name, Resource: tok.Resource, Number: tok.Number, Holder: tok.Holder,
	})
}

// again reports whether a holder that did not reach its unit acquires the lock again,
// because it was only too late.
func again(err error) bool {
	return errors.Is(err, token.ErrLost) || guard.IsRefusal(err) || errors.Is(err, guard.ErrRetryable) || errors.Is(err, guard.ErrEvicted)
}
