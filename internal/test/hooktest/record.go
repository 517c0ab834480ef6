// Package hooktest records the steps that a simulation's listener receives, for tests.
package hooktest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/failpoint"
)

// Record records the calls of a listener. Its zero value is ready for use. Its fields may
// be used while no writer is at a step.
type Record struct {
	Steps  []failpoint.Step
	Keys   []any                     // of each step
	OnStep func(step failpoint.Step) // if not nil, it is called while the writer is blocked

	Notes       []any
	ReplyKeys   []any         // the key of each write whose answer could be lost
	DropReplies bool          // the answers to writes are lost
	CommitKeys  []any         // the key of each write that could be lost before it was sent
	DropCommits bool          // writes are lost before they are sent
	IdleTimeout time.Duration // the idle timeout of transactions, or 0

	mu sync.Mutex
}

// Listen returns a context whose steps are recorded.
func (r *Record) Listen(ctx context.Context) context.Context {
	return failpoint.Listen(ctx, listener{r})
}

type listener struct{ r *Record }

// At implements [failpoint.Listener].
func (l listener) At(_ context.Context, step failpoint.Step, key any) {
	r := l.r
	r.mu.Lock()
	r.Steps, r.Keys = append(r.Steps, step), append(r.Keys, key)
	r.mu.Unlock()
	if r.OnStep != nil {
		r.OnStep(step)
	}
}

// Note implements [failpoint.Listener].
func (l listener) Note(_ context.Context, fact any) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.r.Notes = append(l.r.Notes, fact)
}

// DropsReply implements [failpoint.Listener].
func (l listener) DropsReply(_ context.Context, key any) bool {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.r.ReplyKeys = append(l.r.ReplyKeys, key)
	return l.r.DropReplies
}

// DropsCommit implements [failpoint.Listener].
func (l listener) DropsCommit(_ context.Context, key any) bool {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.r.CommitKeys = append(l.r.CommitKeys, key)
	return l.r.DropCommits
}

// IdleTimeout implements [failpoint.Listener].
func (l listener) IdleTimeout() time.Duration { return l.r.IdleTimeout }

// StepsSoFar returns the steps so far. More may be recorded at the same time.
func (r *Record) StepsSoFar() []failpoint.Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.Steps)
}

// Transactions returns the steps, one line for each key.
func (r *Record) Transactions() (lines []string) {
	at := map[any]int{}
	for i, key := range r.Keys {
		if _, known := at[key]; !known {
			at[key] = len(lines)
			lines = append(lines, "")
		} else {
			lines[at[key]] += " "
		}
		lines[at[key]] += string(r.Steps[i])
	}
	return lines
}
