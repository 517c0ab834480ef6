package simulations

import (
	"context"

	"github.com/fencepost/fencepost/internal/point"
)

// Point names a place in the code of a subject where a writer can be stopped,
// besides those that guards and drivers report: between a read and a write in
// memory, say. Outside of a simulation it costs next to nothing.
func Point(ctx context.Context, name string) { point.At(ctx, point.Step(name), nil) }

// Unheard returns a context whose steps nobody hears of: for an issuer's own
// statements, which over a listened-to pool would be taken for the writer's.
// [Run] does so by itself.
func Unheard(ctx context.Context) context.Context { return point.Listen(ctx, nil) }
