package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/history"
)

// writer is A or B, in its own process.
type writer struct {
	setup
	subject  simulations.Subject
	recorder *history.Recorder
	orders   *json.Decoder

	mu     sync.Mutex
	events *json.Encoder
}

// serve reads the setup and then orders from in, and reports to out, until in
// ends.
func serve(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	w := &writer{orders: json.NewDecoder(in), events: json.NewEncoder(out), recorder: history.NewRecorder()}
	if err := w.orders.Decode(&w.setup); err != nil {
		return fmt.Errorf("process: no setup: %w", err)
	}
	w.recorder.Report(os.NewFile(reportFile, "report"))
	var end func() error
	if w.subject, end, err = open(ctx, w.Subject, w.Conf); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	w.say(event{Kind: ready})
	for {
		var o order
		if err := w.orders.Decode(&o); errors.Is(err, io.EOF) {
			return w.recorder.Err()
		} else if err != nil {
			return fmt.Errorf("process: order: %w", err)
		}
		if err := w.work(ctx, o); err != nil {
			w.say(event{Kind: failed, Text: err.Error()})
		}
	}
}

// say reports e. Whom it does not reach any more, the end of the orders does.
func (w *writer) say(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.At = time.Now()
	_ = w.events.Encode(e)
}
