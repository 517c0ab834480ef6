package history

import "time"

// History is what happened to some resources, in any order.
type History struct {
	// TTL is that of the leases, and Bound how long a paused holder may keep
	// others waiting. Zero means that the rules about them are not judged.
	TTL   time.Duration `json:"ttl,omitempty"`
	Bound time.Duration `json:"bound,omitempty"`
	// Slack is added to both, for what the machine itself may be late.
	Slack time.Duration `json:"slack,omitempty"`
	Ops   []Op          `json:"ops"`
}
