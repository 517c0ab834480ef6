package point

import (
	"context"
	"crypto/rand"
	"runtime"
	"sync"
	"weak"
)

// exported has the sessions that were given an id. It does not keep them: with
// the last context of a session its id is gone. So a request that arrives when
// its client has long left is still part of the simulation that sent it.
var exported sync.Map // from string to weak.Pointer[session]

// Export returns an id by which [Import] finds, in this process, who listens to
// ctx and whether it observes. It is empty where ctx is part of no simulation.
// It is unguessable, the same each time for one context, and forgotten when
// nothing refers to what [Listen] and [Observe] returned any more.
func Export(ctx context.Context) string {
	s := of(ctx)
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

// Import returns a context that is part of the simulation of id, in place of
// one that ctx is part of. Where the id is not known it returns ctx, and false.
func Import(ctx context.Context, id string) (simulated context.Context, known bool) {
	found, ok := exported.Load(id)
	if !ok {
		return ctx, false
	}
	s := found.(weak.Pointer[session]).Value()
	if s == nil {
		return ctx, false
	}
	return s.in(ctx), true
}
