package process

import (
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
)

// HideLoss returns iss as a writer's Locker uses it: it hides a loss.
func HideLoss(iss token.Issuer) token.Issuer {
	w := &writer{subject: simulations.Subject{Issuer: iss}, recorder: history.NewRecorder()}
	return &issuer{unit: &unit{writer: w}}
}

// History returns the operations of all writers.
func History(c Counts) history.History { return c.history }
