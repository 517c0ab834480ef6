package redistoken

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/token"
)

// ask asks for the lock in w's name: it is granted, or w stands in line in
// Redis. It answers no grant and no error where it is not up to w to ask, or w
// has to wait. It goes on for a moment where ctx ends, since what it does to w
// should have happened before w leaves.
func (i *Issuer) ask(ctx context.Context, l *line, w *waiter) (token.Grant, error) {
	ticket, may := i.hall.name(l, w)
	if !may {
		return token.Grant{}, nil
	}
	bound, cancel := outlive(ctx, goodbye/2)
	defer cancel()
	sent := time.Now()
	reply, err := i.run(bound, waitScript, l.keys,
		w.holder, w.ttl.Milliseconds(), w.member, ticket, keepLine.Milliseconds())
	if err != nil {
		return token.Grant{}, i.hall.failed(w, err)
	}
	number, refused, err := granted(reply, l.keys.resource)
	if err != nil {
		return token.Grant{}, i.hall.failed(w, err)
	}
	i.hall.mu.Lock()
	defer i.hall.mu.Unlock()
	w.asking = false
	if refused != nil {
		if slices.Contains(l.waiters, w) {
			l.refused(w, sent, refused)
		}
		return token.Grant{}, nil
	}
	tok := token.Token{Resource: l.keys.resource, Number: number, Holder: w.holder}
	grant := token.Grant{Token: tok, Until: sent.Add(w.ttl)}
	turns := l.turn()
	if o := w.offer; o != nil && o.turn && o.next == w {
		turns = o.turns // a release of this process was faster to hand it over than to hear of it
	}
	if l.serve(w, grant, turns) {
		<-w.grants // it is the answer here
	}
	return grant, nil
}

// name notes that Redis is about to know w, if it is up to w to ask.
func (h *hall) name(l *line, w *waiter) (ticket string, ask bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(l.waiters, w) || l.first() != w && !w.named {
		w.due = time.Time{}
		return "", false
	}
	w.named, w.asking, w.early = true, true, nil
	return w.ticket, true
}

// failed makes w ask again soon.
func (h *hall) failed(w *waiter, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.asking = false
	w.remind(time.Now().Add(pollAfter(10 * leastPause)))
	return err
}

// leave ends w's waiting for cause. What w was handed in this very moment goes
// to the next.
func (i *Issuer) leave(ctx context.Context, l *line, w *waiter, cause error) error {
	err := i.gaveUp(l.keys, i.hall.who(l), cause)
	named, offer := i.hall.part(l, w)
	if !named {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if offer != nil {
		select {
		case <-offer.done: // or w could be offered the lock after it has left
		case <-ctx.Done():
		}
	}
	if _, failed := i.pass(ctx, l.keys, w.holder, w); failed != nil {
		return fmt.Errorf("%w (and left behind, for %s at most: %w)", err, w.accept, failed)
	}
	return err
}

// abandon gives back what an Acquire without an answer may have been granted.
func (i *Issuer) abandon(ctx context.Context, k *keys, holder string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	_, _ = i.pass(ctx, k, holder, nil) // best effort: the ttl ends the matter otherwise
}

var errHung = errors.New("the server does not answer")

// outlive returns a context that ends some time after ctx, and with patience.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), patience, errHung)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return bound, func() { stop(); cancel() }
}
