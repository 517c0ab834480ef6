package failpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// session is the simulation that a context is part of. It is immutable.
type session struct {
	listener  Listener // nil if there is none
	unguarded bool

	once sync.Once
	id   string // set by Export
}

type sessionKey struct{}

// everUsed is set by the first simulation of a process and never cleared. Until then, no
// context is searched.
var everUsed atomic.Bool

func (s *session) attach(ctx context.Context) context.Context {
	everUsed.Store(true)
	return context.WithValue(ctx, sessionKey{}, s)
}

// sessionOf returns the session that ctx is part of, or nil.
func sessionOf(ctx context.Context) *session {
	if !everUsed.Load() {
		return nil
	}
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s
}

// Listen returns a context whose steps l receives. If l is nil, the context has no
// listener.
func Listen(ctx context.Context, l Listener) context.Context {
	s := &session{listener: l}
	if outer := sessionOf(ctx); outer != nil {
		s.unguarded = outer.unguarded
	}
	return s.attach(ctx)
}

// Untraced returns a context without a listener. Issuers use it for their own statements,
// which a traced pool would otherwise report as the writer's.
func Untraced(ctx context.Context) context.Context { return Listen(ctx, nil) }

// listener returns the listener of ctx, or nil.
func listener(ctx context.Context) Listener {
	if s := sessionOf(ctx); s != nil {
		return s.listener
	}
	return nil
}

// Listening reports whether ctx has a listener.
func Listening(ctx context.Context) bool { return listener(ctx) != nil }

// At calls the listener of ctx, if there is one, at step of key.
func At(ctx context.Context, step Step, key any) {
	if l := listener(ctx); l != nil {
		l.At(ctx, step, key)
	}
}

// Note passes fact to the listener of ctx, if there is one.
func Note(ctx context.Context, fact any) {
	if l := listener(ctx); l != nil {
		l.Note(ctx, fact)
	}
}

// DropsReply reports whether the answer to the write of key is to be lost.
func DropsReply(ctx context.Context, key any) bool {
	l := listener(ctx)
	return l != nil && l.DropsReply(ctx, key)
}

// DropsCommit reports whether the COMMIT of key must not be sent. Its caller then gets
// the error of a lost answer. It is called before COMMIT.
func DropsCommit(ctx context.Context, key any) bool {
	l := listener(ctx)
	return l != nil && l.DropsCommit(ctx, key)
}

// IdleTimeout returns own, or the timeout of the listener of ctx if that is shorter. A
// negative own means no timeout and is returned as it is. Zero is the guard's default.
func IdleTimeout(ctx context.Context, own time.Duration) time.Duration {
	l := listener(ctx)
	if l == nil || own < 0 {
		return own
	}
	wanted := l.IdleTimeout()
	if wanted == 0 || own > 0 && own < wanted {
		return own
	}
	return wanted
}

// ErrLost is the error of a connection that was closed after a write, before its answer
// was read, because [DropsReply] returned true.
var ErrLost = errors.New("simulations: the connection was closed before the answer was read")

type stepKey struct{}

// WithKey returns a context for the driver below the caller. It marks the steps of key as
// reported: a tracer of that driver does not report them again, and uses key for the
// transaction that begins under the context. WithKey returns ctx if ctx has no listener.
func WithKey(ctx context.Context, key any) context.Context {
	if !Listening(ctx) {
		return ctx
	}
	return context.WithValue(ctx, stepKey{}, key)
}

// CustomDataKey is where the tracer of a PostgreSQL connection keeps the key of the
// transaction that is open on it, in the connection's CustomData.
const CustomDataKey = "fencepost.point"

// Key returns the key that [WithKey] set, or nil.
func Key(ctx context.Context) any {
	if !everUsed.Load() {
		return nil
	}
	return ctx.Value(stepKey{})
}

type claimKey struct{}

// Claim returns a context for a Locker's claim, so that a listener can distinguish it
// from a check by the code under test. It returns ctx if there is no listener.
func Claim(ctx context.Context) context.Context {
	if !Listening(ctx) {
		return ctx
	}
	return context.WithValue(ctx, claimKey{}, true)
}

// IsClaim reports whether ctx comes from [Claim].
func IsClaim(ctx context.Context) bool { return everUsed.Load() && ctx.Value(claimKey{}) != nil }

// exported holds the sessions that have an id, by weak pointers, so an id ends with the
// last context of its session. A request that arrives after its client has gone is still
// part of the simulation that sent it.
var exported sync.Map // from string to weak.Pointer[session]

// Export returns an id by which [Import] finds, in this process, the listener of ctx and
// whether ctx is unguarded. It returns "" if ctx is part of no simulation. The id cannot
// be guessed, is the same at each call for one context, and is valid until the context of
// [Listen] or [Unguarded] is garbage.
func Export(ctx context.Context) string {
	s := sessionOf(ctx)
	if s == nil {
		return ""
	}
	s.once.Do(func() {
		s.id = rand.Text()
		exported.Store(s.id, weak.Make(s))
		runtime.AddCleanup(s, func(id string) { exported.Delete(id) }, s.id)
	})
	return s.id
}

// Import returns a context that is part of the simulation of id instead of the simulation
// of ctx. If id is unknown, it returns ctx and false.
func Import(ctx context.Context, id string) (simulated context.Context, known bool) {
	found, ok := exported.Load(id)
	if !ok {
		return ctx, false
	}
	s := found.(weak.Pointer[session]).Value()
	if s == nil {
		return ctx, false
	}
	return s.attach(ctx), true
}

// Unguarded returns a context under which the guards of this module compare and refuse
// nothing: the unguarded twin of the same code. This applies whatever the guard's own
// report-only switch is. The guard's hooks are called, and nothing is logged.
//
// A switch that turns guards off has to be out of reach of programs:
//
//   - The package is internal. Only package simulations and its parts call
//     Unguarded, and their exported functions take a testing.TB or a testing.M.
//   - It is a value of one context, of an unexported type. No setting, variable
//     or header turns it on, and it ends with the calls under that context.
//   - It does not leave its process: an id that comes with a request (see
//     [Import]) is valid only in the process that made it.
//   - Before the first Unguarded or Listen of a process, no context is searched.
func Unguarded(ctx context.Context) context.Context {
	s := &session{unguarded: true}
	if outer := sessionOf(ctx); outer != nil {
		s.listener = outer.listener
	}
	return s.attach(ctx)
}

// IsUnguarded reports whether ctx comes from [Unguarded].
func IsUnguarded(ctx context.Context) bool {
	s := sessionOf(ctx)
	return s != nil && s.unguarded
}
