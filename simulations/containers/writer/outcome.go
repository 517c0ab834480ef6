package main

import (
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/containers/wire"
	"github.com/fencepost/fencepost/token"
)

// outcome is the word for err, or its text.
func outcome(err error) string {
	for known, word := range map[error]string{
		guard.ErrStale: wire.Stale, guard.ErrUnknown: wire.Unknown, guard.ErrEvicted: wire.Evicted,
	} {
		if errors.Is(err, known) {
			return word
		}
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, token.ErrLost):
		return wire.Gone
	}
	return err.Error()
}
