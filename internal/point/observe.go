package point

import "context"

// Observe returns a context under which every guard of this module judges and
// refuses nothing, in silence: the unguarded twin of the same code. Whatever
// the guard's own DangerouslyObserve says; its Observer.Observed is told where
// it is set, and nothing is logged.
//
// A switch that turns guards off has to be out of everybody's reach:
//
//   - The package is internal. Only package simulations and what it consists of
//     call Observe, and their doors take a testing.TB or a testing.M.
//   - It is a value of one context, of an unexported type. No setting, variable
//     or header turns it on, and it ends with the calls under that context.
//   - It leaves a process by no wire: an id that comes with a request (see
//     [Import]) means something only in the process that made it, to whoever
//     was told.
//   - Before the first Observe or Listen of a process, nobody looks for it.
func Observe(ctx context.Context) context.Context {
	s := &session{observing: true}
	if outer := of(ctx); outer != nil {
		s.listener = outer.listener
	}
	return s.in(ctx)
}

// Observing reports whether ctx comes from [Observe].
func Observing(ctx context.Context) bool {
	s := of(ctx)
	return s != nil && s.observing
}
