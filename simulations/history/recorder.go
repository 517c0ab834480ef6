package history

import (
	"io"
	"slices"
	"sync"
	"time"
)

// Recorder writes a history down while it happens. All its times count from
// its beginning, on the monotonic clock. It is safe for concurrent use; make one
// with [NewRecorder].
type Recorder struct {
	started time.Time

	mu      sync.Mutex
	ops     []Op
	open    map[*Open]struct{}
	last    uint64 // id in the report
	report  *Encoder
	failure error // the report's first
}

// NewRecorder returns a Recorder whose time begins now.
func NewRecorder() *Recorder {
	return &Recorder{started: time.Now(), open: make(map[*Open]struct{})}
}

// Now returns the time since the recorder's beginning.
func (r *Recorder) Now() time.Duration { return time.Since(r.started) }

// Started returns the instant from which the times count.
func (r *Recorder) Started() time.Time { return r.started }

// Add takes down op as it is: it is for [Check] to refuse a malformed one.
func (r *Recorder) Add(op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.ops = append(r.ops, op)
	r.tell(Line{ID: r.last, Op: op})
}

// Begin takes down that op was asked for now, and is open until [Open.End]. What
// is never ended is Unknown in the history, up to the moment of asking for it:
// nobody forgets the last question of a writer that is killed.
func (r *Recorder) Begin(op Op) *Open {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Began = r.Now()
	op.Ended, op.Outcome = op.Began, Unknown
	r.last++
	o := &Open{recorder: r, id: r.last, op: op}
	r.open[o] = struct{}{}
	r.tell(Line{ID: o.id, Open: true, Op: op})
	return o
}

// History returns what was taken down so far, in the order of Began.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	ops := slices.Clone(r.ops)
	for o := range r.open {
		op := o.op
		op.Ended = r.Now()
		ops = append(ops, op)
	}
	slices.SortStableFunc(ops, func(a, b Op) int { return byBegan(&a, &b) })
	return History{Ops: ops}
}

// Report also writes everything from now on to w, for [Recorder.Merge] in
// another process. Its first error is [Recorder.Err].
func (r *Recorder) Report(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report = NewEncoder(w)
	r.failure = r.report.Encode(Line{Started: r.started})
}

// Err returns the first error of writing the report, after which nothing more
// is written to it.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

func (r *Recorder) tell(line Line) {
	if r.report != nil && r.failure == nil {
		r.failure = r.report.Encode(line)
	}
}
