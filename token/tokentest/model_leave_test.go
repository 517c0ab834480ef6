package tokentest_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencepost/fencepost/token"
)

// leave takes a place out of the line, or passes on what was handed to it.
func (m *model) leave(ctx context.Context, resource string, l *lease, at *place) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.has(leavingKeepsThePlace) {
		l.line = slices.DeleteFunc(l.line, func(p *place) bool { return p == at })
	}
	held := &token.HeldError{Resource: resource, Holder: l.holder, Remaining: time.Until(l.until)}
	mine := l.holder == at.holder && l.until.After(time.Now())
	if mine && !m.has(leavingKeepsTheGrant) || m.has(leavingFreesWhatever) {
		m.free(l)
	}
	switch {
	case m.has(leavingSaysNoCause):
		return errors.Join(ctx.Err(), held)
	case m.has(leavingNamesNobody):
		return context.Cause(ctx)
	case m.has(leavingNamesItself):
		held.Holder = at.holder
	}
	return errors.Join(context.Cause(ctx), held)
}
