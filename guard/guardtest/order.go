package guardtest

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func first(ctx context.Context, s guard.Store) error {
	for _, number := range []int64{1, 33, token.MaxNumber} {
		if err := admits(ctx, s, tok(fresh(), number, "a")); err != nil {
			return err
		}
	}
	return nil
}

func greater(ctx context.Context, s guard.Store) error {
	for _, holder := range []string{"a", "b"} {
		r := fresh()
		if err := admits(ctx, s, tok(r, 33, "a"), tok(r, 34, holder), tok(r, 77, "c")); err != nil {
			return err
		}
	}
	return nil
}

func lesser(ctx context.Context, s guard.Store) error {
	for _, late := range []token.Token{{Number: 32, Holder: "a"}, {Number: 32, Holder: "b"}, {Number: 11, Holder: "b"}} {
		late.Resource = fresh()
		if err := refusesAfter(ctx, s, late, tok(late.Resource, 33, "a")); err != nil {
			return err
		}
	}
	return nil
}

func again(ctx context.Context, s guard.Store) error {
	r := fresh()
	return admits(ctx, s, tok(r, 33, "a"), tok(r, 33, "a"), tok(r, 33, "a"))
}

func collision(ctx context.Context, s guard.Store) error {
	r := fresh()
	return refusesAfter(ctx, s, tok(r, 33, "b"), tok(r, 33, "a"))
}

// numeric uses pairs whose order differs as text, as 32-bit integers, or in the 24 or 53
// bits of a floating-point number.
func numeric(ctx context.Context, s guard.Store) error {
	pairs := [][2]int64{
		{9, 10}, {2, 10}, {99, 100},
		{1<<31 - 1, 1 << 31}, {2, 1<<32 + 1}, {1 << 24, 1<<24 + 1},
		{token.MaxNumber - 1, token.MaxNumber}, {9, token.MaxNumber},
	}
	for _, p := range pairs {
		r := fresh()
		if err := refusesAfter(ctx, s, tok(r, p[0], "c"), tok(r, p[0], "a"), tok(r, p[1], "b")); err != nil {
			return err
		}
	}
	return nil
}

// crowd is how many other resources are written before a mark is checked again: more than
// a small cache holds.
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
