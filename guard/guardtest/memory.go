package guardtest

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/guard"
)

// crowd is how many other resources are written before a mark is asked for
// again: more than a small cache holds.
const crowd = 256

func apart(ctx context.Context, s guard.Store) error {
	r := fresh()
	return admits(ctx, s, tok(r, 33, "a"), tok(r+"1", 32, "b"))
}

func remembered(ctx context.Context, s guard.Store) error {
	r := fresh()
	if err := admits(ctx, s, tok(r, 33, "a")); err != nil {
		return err
	}
	for range crowd {
		if err := admits(ctx, s, tok(fresh(), 33, "a")); err != nil {
			return err
		}
	}
	if err := refuses(ctx, s, tok(r, 32, "b")); err != nil {
		return fmt.Errorf("after 33 by a and %d other resources, %w", crowd, err)
	}
	return nil
}
