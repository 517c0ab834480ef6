package replicas_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// The test writes one setup to each process, and then orders to the callers; the
// processes say events.

type setup struct {
	Postgres, Schema string
	Redis, Prefix    string
	Replicas         []string // their addresses, for callers
	Name             string   // of a caller
	Started          time.Time
}

// order is one unit of a caller's work: it takes the lock, reads the balance and
// writes it, one more each time.
type order struct {
	Account string
	Way     string // of the service
	Writes  int
	Before  string // the replica that it asks
	After   string // the replica that it asks after it has been stopped
	Stand   stand  `json:",omitempty"`
}

// stand is where somebody is stopped in the course of A's unit.
type stand string

const (
	nowhere  stand = ""
	read     stand = "between its read and its write"
	written  stand = "between its first write and its second"
	halfway  stand = "in the middle of the body of its first write"
	admitted stand = "in the handler of its first write, which was admitted" // the replica is
)

// event is what a process says.
type event struct {
	Address string       `json:",omitempty"` // of a replica: it serves there
	Halfway bool         `json:",omitempty"` // of a replica: it has read half of a body
	Ops     []history.Op `json:",omitempty"` // of a caller: its unit is over
}

// worker is one of the processes.
type worker struct {
	setup
	orders *json.Decoder

	mu     sync.Mutex
	events *json.Encoder
}

// say reports e. Whom it does not reach any more, the end of the orders does.
func (w *worker) say(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.events.Encode(e)
}

// now is the time since the beginning, by the clock that all processes share.
func (s setup) now() time.Duration { return time.Now().Round(0).Sub(s.Started) }

// obey calls do with each order until there are no more.
func (w *worker) obey(do func(order) error) error {
	for {
		var o order
		switch err := w.orders.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("order: %w", err)
		}
		if err := do(o); err != nil {
			return err
		}
	}
}
