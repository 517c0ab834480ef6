package measure

import "context"

// Cost runs a block of n operations, once, and returns what one of them cost, in
// a unit of its own: bytes, say. An error of the block is returned as it is.
type Cost func(ctx context.Context, n int, block func() error) (float64, error)
