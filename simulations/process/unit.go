package process

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// unit is one order being carried out.
type unit struct {
	*writer
	order order

	mu      sync.Mutex
	prefix  string // of the steps' names
	steps   []string
	seen    map[string]int
	stopped bool

	tok     token.Token
	writes  map[any]*history.Open // transactions that are open
	last    *history.Open         // of the writes that end with their unit
	wrote   time.Time             // when the last write began
	outcome history.Outcome       // empty: Do has not run
	err     error
}

// work holds the resource and does one unit. On a busy machine the lease can be
// gone before the writer came to its work; then it takes the lock again, as it
// does where nothing was applied, and nobody had stopped it.
func (w *writer) work(ctx context.Context, o order) error {
	u := &unit{writer: w, order: o, seen: map[string]int{}, writes: map[any]*history.Open{}}
	if w.Twin && w.subject.Unguarded == nil {
		ctx = point.Observe(ctx)
	}
	ctx = point.Listen(ctx, u.listen)
	stop := u.stopAfter(o.After)
	defer stop()
	locker := token.Locker{Issuer: &issuer{unit: u}, Name: w.Name, TTL: w.subject.TTL, Claim: u.claim}
	for {
		err := locker.Hold(ctx, w.subject.Resource, u.do)
		switch {
		case u.outcome == "" && !again(err):
			return err
		case u.outcome != "" && (u.outcome != history.Failed || u.wasStopped()):
			w.say(u.answer())
			return nil
		}
		u.outcome = ""
	}
}

func (u *unit) wasStopped() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stopped
}

func (u *unit) answer() event {
	e := event{Kind: answered, Outcome: u.outcome, Number: u.tok.Number, Wrote: u.wrote, Steps: u.steps}
	if u.err != nil {
		e.Text = u.err.Error()
	}
	return e
}

// unfenced reports whether the twin is code of its own, which claims nothing.
func (u *unit) unfenced() bool { return u.Twin && u.subject.Unguarded != nil }
