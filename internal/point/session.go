package point

import (
	"context"
	"sync"
	"sync/atomic"
)

// session is what a context knows of the simulation it is part of. It is not
// changed after it was made.
type session struct {
	listener  Listener // nil where nobody listens
	observing bool

	once sync.Once
	id   string // once it was exported
}

type sessionKey struct{}

// begun is set for ever by the first simulation of a process: before, no context
// is searched.
var begun atomic.Bool

func (s *session) in(ctx context.Context) context.Context {
	begun.Store(true)
	return context.WithValue(ctx, sessionKey{}, s)
}

// of returns the session that ctx is part of, or nil.
func of(ctx context.Context) *session {
	if !begun.Load() {
		return nil
	}
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s
}
