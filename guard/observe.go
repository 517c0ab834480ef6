package guard

import (
	"context"

	"github.com/fencepost/fencepost/token"
)

// DangerouslyObserve judges every token by Store, reports what it would have
// refused to Observer, and refuses nothing: for the first days of a roll-out,
// and as the unguarded twin of a test. Errors that are no refusals remain.
type DangerouslyObserve struct {
	Store    Store
	Observer Observer
}

var _ Store = DangerouslyObserve{}

// Admit raises the mark where the token admits it, and returns nil for a
// refusal.
func (d DangerouslyObserve) Admit(ctx context.Context, tok token.Token) error {
	return d.Observer.Judge(ctx, d.Store.Admit(ctx, tok), true)
}
