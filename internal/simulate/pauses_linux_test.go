package simulate_test

import "github.com/fencepost/fencepost/internal/simulate"

func pauses() map[string]simulate.Pause {
	return map[string]simulate.Pause{
		"stopped by itself":         simulate.SelfStopped,
		"stopped by its parent":     simulate.StoppedByParent,
		"paused inside its process": simulate.InProcess,
	}
}
