package failpoint

import (
	"context"
	"sync"
)

// A simulation holds the lock around the code under test. In production there is no outer
// Hold, so a Hold in that code is the first one; in the simulation it is nested. The
// outer token is therefore used in one of two ways. If the code uses the token before it
// holds the resource, it gets the outer token. If it holds the resource first, it sees a
// token only inside its own Hold, and its next Hold is another acquisition.

// outerToken is the token of the simulation around the code, and how the code uses it.
type outerToken struct {
	resource string
	tok      any

	mu    sync.Mutex
	state tokenState
	holds int // nested Holds that have not ended
}

type tokenState int

const (
	undecided tokenState = iota
	usedFirst            // the token was used before a Hold
	heldFirst            // the code held the resource before it used the token
	heldAgain            // as heldFirst; that Hold has ended, and another has begun
)

type outerTokenKey struct{}

// WithOuterToken marks tok, a token that ctx carries, as the token of a simulation around
// the code under test.
func WithOuterToken(ctx context.Context, resource string, tok any) context.Context {
	everUsed.Store(true)
	return context.WithValue(ctx, outerTokenKey{}, &outerToken{resource: resource, tok: tok})
}

// Reacquired is the note that code under an outer token has held and released the
// resource, and is about to acquire it again.
type Reacquired struct{ Resource string }

// UsedFirst is the note that code acquires the resource after it has used the outer
// token. In production it would have had no token.
type UsedFirst struct{ Resource string }

// Reacquires reports whether a Hold of resource under ctx is a new acquisition although
// ctx carries a lease.
func Reacquires(ctx context.Context, resource string) bool {
	l := outerTokenOf(ctx, resource)
	if l == nil {
		return false
	}
	l.mu.Lock()
	first := l.state == heldFirst && l.holds == 0
	if first {
		l.state = heldAgain
	}
	again := l.state == heldAgain
	l.mu.Unlock()
	if first {
		Note(ctx, Reacquired{resource})
	}
	return again
}

// EnterHold records that a nested Hold of resource begins under ctx. It returns the
// context of the Hold, and a function that the caller must call when the Hold has ended.
func EnterHold(ctx context.Context, resource string) (inner context.Context, leave func()) {
	l := outerTokenOf(ctx, resource)
	if l == nil {
		return ctx, func() {}
	}
	if l.enter() == usedFirst {
		Note(ctx, UsedFirst{resource})
		return ctx, func() {}
	}
	return context.WithValue(ctx, outerTokenKey{}, (*outerToken)(nil)), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holds--
	}
}

// enter records that a nested Hold begins, and returns the state.
func (l *outerToken) enter() tokenState {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != usedFirst {
		l.state = heldFirst
		l.holds++
	}
	return l.state
}

// HidesToken reports whether ctx would not carry tok in production. Callers call it
// before they use tok: if the code has not held the resource yet, it uses the outer token
// from now on.
func HidesToken(ctx context.Context, resource string, tok any) bool {
	l := outerTokenOf(ctx, resource)
	if l == nil || l.tok != tok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == undecided {
		l.state = usedFirst
	}
	return l.state != usedFirst
}

// HidesTokenNow is [HidesToken] for callers that only look at tok, as a listener and
// token.All do. It decides nothing.
func HidesTokenNow(ctx context.Context, resource string, tok any) bool {
	l := outerTokenOf(ctx, resource)
	if l == nil || l.tok != tok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == heldFirst || l.state == heldAgain
}

// TokenUse is how code has used its outer token so far.
type TokenUse int

// The uses of an outer token.
const (
	TokenUsed      TokenUse = iota // the code has used it, or is inside a Hold; or there is none
	TokenUndecided                 // the code has neither used it nor held the resource
	TokenHidden                    // the code holds the resource itself, and is outside of its Holds
)

// OuterTokenUse returns how the code under ctx, from [WithOuterToken], has used the token.
func OuterTokenUse(ctx context.Context, resource string) TokenUse {
	l := outerTokenOf(ctx, resource)
	if l == nil {
		return TokenUsed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.state == undecided:
		return TokenUndecided
	case l.state == usedFirst || l.holds > 0:
		return TokenUsed
	}
	return TokenHidden
}

func outerTokenOf(ctx context.Context, resource string) *outerToken {
	if !everUsed.Load() {
		return nil
	}
	l, _ := ctx.Value(outerTokenKey{}).(*outerToken)
	if l == nil || l.resource != resource {
		return nil
	}
	return l
}
