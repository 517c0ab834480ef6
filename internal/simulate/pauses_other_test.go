//go:build !linux

package simulate_test

import "github.com/fencepost/fencepost/internal/simulate"

func pauses() map[string]simulate.Pause {
	return map[string]simulate.Pause{"the best there is": 0, "paused inside its process": simulate.InProcess}
}
