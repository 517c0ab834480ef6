package pgtoken

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

// Raise implements [token.Raiser]. It raises the row of the one resource,
// durably; the sequence stays as it is, since one that is set back to what was
// read of it repeats what others have drawn in the meantime.
func (i *Issuer) Raise(ctx context.Context, resource string, number int64) error {
	if err := (token.Token{Resource: resource, Number: number, Holder: "-"}).Check(); err != nil {
		return err
	}
	var verdict string
	err := i.single(ctx, raiseSQL, []any{resource, number}, &verdict)
	switch {
	case err != nil:
	case verdict == "lost":
		err = token.ErrLost
	case verdict == "poisoned":
		err = token.ErrPoisoned
	}
	if err != nil {
		return fmt.Errorf("pgtoken: raise %s to %d: %w", resource, number, err)
	}
	return nil
}
