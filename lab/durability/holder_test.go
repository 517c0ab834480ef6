package durability_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// order is the setup of a process.
type order struct {
	Process  int
	Redis    string // URL
	Prefix   string
	Postgres string // URL
	Schema   string
	Rows     int  // of each way with each issuer
	Twin     bool // report-only guards
	Sleeps   int  // one write in this many sleeps until its lock is lost
	Seed     uint64
}

// reportFile is the descriptor to which a process writes its history.
const reportFile = 3

const (
	// mostUnits is how many units are done under one lock, at most.
	mostUnits = 20
	// oneGivesUp is how many writers there are for each that gives up in the middle of
	// its write.
	oneGivesUp = 50
	// mostWork is how long the work between read and write takes, at most.
	mostWork = 2 * time.Millisecond
)

// crew is the holders of one process.
type crew struct {
	order
	*site
	*subprocess.Parent
	recorder *history.Recorder
}

// serve runs a process of holders, which work until the parent closes the input. It
// reports "" when it is ready, and then the row of each acknowledged write.
func serve(parent *subprocess.Parent) (err error) {
	c := &crew{Parent: parent, recorder: history.NewRecorder()}
	if err := c.Receive(&c.order); err != nil {
		return err
	}
	report := os.NewFile(reportFile, "report")
	defer func() { err = errors.Join(err, c.recorder.Err(), report.Close()) }()
	c.recorder.Report(report)
	if c.site, err = connect(context.Background(), c.order); err != nil {
		return err
	}
	defer c.close()
	c.Report("")
	ctx, stop := c.UntilClosed(context.Background())
	defer stop()
	c.work(ctx)
	return nil
}

// work runs a holder for each row, and returns when all have ended.
func (c *crew) work(ctx context.Context) {
	var working sync.WaitGroup
	all := map[string]*drowsy{}
	for name, made := range issuers {
		all[name] = &drowsy{issuer: made(c.site, c.order)}
	}
	for n, cell := range cells(c.Rows) {
		for i, key := range cell.keys() {
			h := &holder{
				crew: c, way: ways[cell.Way], issuer: all[cell.Issuer], key: key,
				name:   fmt.Sprintf("process %d", c.Process),
				random: rand.New(rand.NewPCG(c.Seed, uint64((c.Process*100+n)*100+i))),
			}
			working.Go(func() { h.work(ctx) })
		}
	}
	working.Wait()
	for _, iss := range all {
		_ = iss.Close()
	}
}

// holder takes one row's lock again and again. It is used by one goroutine.
type holder struct {
	*crew
	way    way
	issuer *drowsy
	key    string
	name   string
	random *rand.Rand

	asked time.Duration
	tok   token.Token // the last token it was granted
}

func (h *holder) work(ctx context.Context) {
	locker := lock.Locker{
		Issuer: h.issuer, Name: h.name, TTL: ttl, Claim: h.claim,
		Hooks: lock.Hooks{
			Acquired:    func(_ context.Context, tok token.Token, _ time.Duration) { h.granted(tok) },
			RenewFailed: func(context.Context, token.Token, time.Duration, error) {}, // keeps expected failures out of the log
			Recovered:   func(context.Context, token.Token, int64) {},
		},
	}
	for n := 0; ctx.Err() == nil; n++ {
		h.asked, h.tok = h.recorder.Now(), token.Token{}
		_ = locker.Hold(ctx, resource(h.key), func(ctx context.Context) error { return h.doSome(ctx, n) })
		if h.tok.Number == 0 { // it may have been granted nevertheless
			h.add(history.Acquire, h.asked, history.Unknown)
		}
	}
}

func (h *holder) granted(tok token.Token) {
	h.tok = tok
	h.add(history.Acquire, h.asked, history.Accepted)
}

func (h *holder) claim(ctx context.Context, tok token.Token) error {
	began := h.recorder.Now()
	err := h.way.claim(h.site)(ctx, tok)
	h.add(history.Claim, began, history.OutcomeOf(err))
	return err
}

// doSome does units under one lock until one fails.
func (h *holder) doSome(ctx context.Context, n int) (err error) {
	for i := range 1 + h.random.IntN(mostUnits) {
		if err == nil && ctx.Err() == nil {
			err = h.do(ctx, fmt.Sprintf("%s, %d.%d", h.name, n, i))
		}
	}
	return err
}

// do does one unit of work. Its outcome is the guard's.
func (h *holder) do(ctx context.Context, unit string) error {
	asked := h.recorder.Begin(h.op(history.Unit, unit))
	w := &write{holder: h, open: h.recorder.Begin(h.op(history.Write, unit))}
	err := w.add(ctx, unit)
	outcome := outcomeOf(err)
	w.open.End(outcome, func(op *history.Op) {
		if outcome == history.Accepted {
			op.Seen, op.Made = int64(w.seen), int64(w.seen+1)
		}
	})
	asked.End(outcome, nil)
	if outcome == history.Accepted {
		h.Report(h.key)
	}
	return err
}

// outcomeOf returns Failed for an error of the guard except ErrUnknown, since nothing was
// applied then.
func outcomeOf(err error) history.Outcome {
	if outcome := history.OutcomeOf(err); outcome != history.Unknown || errors.Is(err, guard.ErrUnknown) {
		return outcome
	}
	return history.Failed
}

func (h *holder) add(kind history.Kind, began time.Duration, outcome history.Outcome) {
	op := h.op(kind, "")
	op.Began, op.Ended, op.Outcome = began, h.recorder.Now(), outcome
	h.recorder.Add(op)
}

// op returns an op of this holder under its token.
func (h *holder) op(kind history.Kind, unit string) history.Op {
	return history.Op{
		Kind: kind, Writer: h.name, Resource: resource(h.key), Number: h.tok.Number, Holder: h.tok.Holder, Note: unit,
	}
}

// write is one read-modify-write, with the events that hit its holder meanwhile.
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

// draw chooses an event, mostly none.
func (h *holder) draw() moment {
	if h.random.IntN(h.Sleeps) > 0 {
		return never
	}
	return []moment{beforeTheRead, beforeTheWrite, beforeTheWrite, afterTheWrite}[h.random.IntN(4)]
}

// add uses the lease's context or, every other time, a context that does not end with the
// lease: such a holder does not check its lease.
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

// work runs between read and write. A writer that gives up does so when the write is
// sent, or shortly before.
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
