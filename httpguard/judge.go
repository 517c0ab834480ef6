package httpguard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
)

// judge returns nil, a refusal, a *mountError, a *storeError or errHeldUp. The
// cheap questions come first, and nothing is admitted before all tokens are
// there and sealed.
func (m *Middleware) judge(v *visit, r *http.Request) error {
	needed := !Safe(r.Method)
	if !needed && len(v.sealed) == 0 {
		return nil // the field was there, and empty
	}
	resources, err := m.resources(r, needed)
	if err != nil {
		return err
	}
	if err := v.want(resources, needed); err != nil {
		return err
	}
	if err := m.unseal(v); err != nil {
		return err
	}
	if !m.DangerouslyWithoutWindow && !m.DangerouslyObserve && !point.Observing(v.Context) {
		if err := v.enter(m.Window, m.Wait); err != nil {
			return err
		}
	}
	return m.admit(v)
}

func (m *Middleware) unseal(v *visit) error {
	if m.Seals == nil {
		return nil
	}
	for i := range v.places {
		if err := m.Seals.Verify(*v.places[i].sealed); err != nil {
			return err
		}
	}
	return nil
}

// admit asks the store inside the window, and only there. The other order
// admits who is then overtaken at the gate:
//
//  1. the store admits 33, which has not entered the window yet;
//  2. 34 is admitted, enters the window, which is empty, writes and leaves;
//  3. 33 enters the window, which is empty again, and writes.
//
// A newer request that has come since is looked for once more at the end.
func (m *Middleware) admit(v *visit) error {
	if m.Store == nil {
		return v.dismissed()
	}
	for i := range v.places {
		if err := m.Store.Admit(v, v.places[i].sealed.Token); err != nil {
			if stale := v.dismissed(); stale != nil {
				return stale // whatever the store says of a context that has ended
			}
			if guard.Refusal(err) {
				return err
			}
			return &storeError{err: err}
		}
	}
	return v.dismissed()
}

// errHeldUp is the end of a wait that was too long.
var errHeldUp = errors.New("httpguard: older requests are still in their handlers")

// enter takes v through the gates of its resources, in their bytewise order: a
// request waits only at gates behind those that it has passed, so that no two
// wait for each other. The wait is for all gates together.
func (v *visit) enter(w *Window, wait time.Duration) error {
	var timeout <-chan time.Time
	for i := range v.places {
		p := &v.places[i]
		older, waits, err := w.enter(p)
		if err != nil {
			return err
		}
		for _, o := range older {
			other := o.Visitor.(*place)
			other.visit.dismiss(other.sealed.Token, wait/2)
		}
		if !waits {
			continue
		}
		if timeout == nil {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			timeout = timer.C
		}
		if err := p.wait(timeout); err != nil {
			return err
		}
	}
	return nil
}

// wait looks, after it was woken, where p stands: a still newer token may have
// come in the meantime.
func (p *place) wait(timeout <-chan time.Time) error {
	expired := false
	select {
	case <-p.called:
	case <-p.visit.Done():
	case <-timeout:
		expired = true
	}
	switch cause := context.Cause(p.visit); {
	case p.entered():
		return nil
	case refused(cause) != nil:
		return refused(cause)
	case cause != nil:
		return &storeError{err: cause}
	case expired:
		return errHeldUp
	}
	return &guard.StaleError{Token: p.sealed.Token}
}
