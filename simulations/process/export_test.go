package process

import (
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// Deaf returns iss as a writer's Locker has it, which never hears of a loss.
func Deaf(iss token.Issuer) token.Issuer {
	w := &writer{subject: simulations.Subject{Issuer: iss}, recorder: history.NewRecorder()}
	return &issuer{unit: &unit{writer: w}}
}
