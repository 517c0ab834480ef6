package acknowledged_test

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// write is one read-modify-write, with what happens to its holder meanwhile.
type write struct {
	*holder
	open   *history.Open
	sleeps moment
	seen   int
	cancel context.CancelFunc
}

// moment is when a holder falls asleep.
type moment int

const (
	never moment = iota
	beforeTheRead
	beforeTheWrite
	afterTheWrite
)

// draw decides what happens, mostly nothing.
func (h *holder) draw() moment {
	if h.random.IntN(h.Sleeps) > 0 {
		return never
	}
	return []moment{beforeTheRead, beforeTheWrite, beforeTheWrite, afterTheWrite}[h.random.IntN(4)]
}

// add comes to the row with the lease's context or, every other time, with one
// that does not end with the lease: such a holder does not look.
func (w *write) add(ctx context.Context, unit string) error {
	w.sleeps = w.draw()
	if w.random.IntN(2) == 0 {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, w.cancel = context.WithCancel(ctx)
	defer w.cancel()
	w.sleep(beforeTheRead)
	err := w.way.add(ctx, w.site, change{key: w.key, unit: unit, work: w.work})
	w.sleep(afterTheWrite)
	return err
}

// work is between read and write. A writer that gives up does so when the write
// is on its way, or nearly so.
func (w *write) work(seen int) {
	w.seen = seen
	time.Sleep(time.Duration(w.random.Int64N(int64(mostWork))))
	w.sleep(beforeTheWrite)
	if w.random.IntN(oneGivesUp) == 0 {
		time.AfterFunc(time.Duration(w.random.Int64N(int64(mostWork))), w.cancel)
	}
}

func (w *write) sleep(now moment) {
	if w.sleeps == now {
		w.issuer.sleep(w.tok, time.Duration(w.random.Int64N(int64(ttl))))
	}
}
