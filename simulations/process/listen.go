package process

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/simulations/history"
)

// listen puts down each transaction that writes, from its beginning to its
// answer, and stops the writer where it was ordered to.
func (u *unit) listen(_ context.Context, step point.Step, key any) {
	switch step {
	case point.Begin, point.Request:
		// Put down when the writer goes on: what it is about to begin has not
		// begun while it stands here.
		u.pass(string(step))
		u.begin(step, key)
		return
	case point.Applied:
		u.end(key, history.Accepted)
	case point.Unknown:
		u.end(key, history.Unknown)
	case point.Undone:
		u.end(key, history.Failed)
	}
	u.pass(string(step))
}

// begin puts down that something began which may write. What has no key ends
// with its unit, which says what became of it: a request, and what code tells
// by simulations.Point of writes that nobody else sees.
func (u *unit) begin(step point.Step, key any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.prefix != "" || step == point.Request && safe(key) {
		return // what a claim does writes nothing either
	}
	before, outcome := u.writes[key], history.Failed // it is tried again
	if step == point.Request || key == nil {
		before, outcome = u.last, history.Unknown // the unit will tell of the last one
	}
	if before != nil {
		before.End(outcome, nil)
	}
	began := u.recorder.Begin(u.op(history.Write))
	if step == point.Request || key == nil {
		u.last = began
	} else {
		u.writes[key] = began
	}
	u.wrote = time.Now()
}

// safe reports whether key is a request with a method that only reads: RFC 9110,
// section 9.2.1.
func safe(key any) bool {
	req, ok := key.(*http.Request)
	return ok && slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, ""}, req.Method)
}

func (u *unit) end(key any, outcome history.Outcome) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if open := u.writes[key]; open != nil {
		open.End(outcome, nil)
		delete(u.writes, key)
	}
}
