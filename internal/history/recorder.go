package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// Recorder records a history while it happens. All its times count from its creation, on
// the monotonic clock. It is safe for concurrent use. Use [NewRecorder] to make one.
type Recorder struct {
	started time.Time

	mu      sync.Mutex
	ops     []Op
	open    map[*Open]struct{}
	last    uint64 // id in the report
	report  io.Writer
	failure error // the first error of writing the report
}

// NewRecorder returns a Recorder whose clock starts now.
func NewRecorder() *Recorder {
	return &Recorder{started: time.Now(), open: make(map[*Open]struct{})}
}

// Now returns the time since the recorder was made.
func (r *Recorder) Now() time.Duration { return time.Since(r.started) }

// Started returns the instant from which times count.
func (r *Recorder) Started() time.Time { return r.started }

// Add records op as it is. [Check] refuses a malformed op later.
func (r *Recorder) Add(op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	r.ops = append(r.ops, op)
	r.writeLine(Line{ID: r.last, Op: op})
}

// Begin records that op was sent now, and is open until [Open.End]. An op that is never
// ended is Unknown in the history and lasts until History is called, so the last request
// of a killed writer is kept.
func (r *Recorder) Begin(op Op) *Open {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Began = r.Now()
	op.Ended, op.Outcome = op.Began, Unknown
	r.last++
	o := &Open{recorder: r, id: r.last, op: op}
	r.open[o] = struct{}{}
	r.writeLine(Line{ID: o.id, Open: true, Op: op})
	return o
}

// History returns what was recorded so far, in the order of Began.
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

// Report also writes everything that is recorded from now on to w, for [Recorder.Merge]
// in another process. [Recorder.Err] returns its first error.
func (r *Recorder) Report(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report = w
	r.failure = encode(w, Line{Started: r.started})
}

// Err returns the first error of writing the report. After it, nothing more is written to
// the report.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

func (r *Recorder) writeLine(line Line) {
	if r.report != nil && r.failure == nil {
		r.failure = encode(r.report, line)
	}
}

// Open is an op that was sent and is not answered yet.
type Open struct {
	recorder *Recorder
	id       uint64
	op       Op
}

// End records that the op ended now. Only the first End counts. learnt may fill in facts
// that are known by now, such as the token or the version. It may be nil, and must not
// call the recorder.
func (o *Open) End(outcome Outcome, learnt func(*Op)) {
	r := o.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, open := r.open[o]; !open {
		return
	}
	delete(r.open, o)
	o.op.Ended, o.op.Outcome = r.Now(), outcome
	if learnt != nil {
		learnt(&o.op)
	}
	r.ops = append(r.ops, o.op)
	r.writeLine(Line{ID: o.id, Op: o.op})
}

// Line is one line of JSON in a report: the start of the clock, which comes first, or an
// op. A later line with the same ID replaces the earlier one.
type Line struct {
	Started time.Time `json:"started,omitzero"` // the instant from which times count
	ID      uint64    `json:"id,omitempty"`
	Open    bool      `json:"open,omitempty"` // not answered yet
	Op
}

// encode writes one line by one call of Write.
func encode(w io.Writer, line Line) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("history: encode: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// parse returns an error for a malformed op or an unknown field.
func parse(text []byte) (Line, error) {
	var line Line
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&line); err != nil {
		return line, err
	}
	if strict.More() {
		return line, errors.New("more than one op")
	}
	if !line.Started.IsZero() {
		return line, nil
	}
	return line, line.Check()
}

// Merge records what another process reported, until the end of reader, in this
// recorder's time. It compares the wall clocks, so both processes must run on one
// machine. Ops that are open at the end are Unknown. A last line that is cut off is
// ignored: its writer was killed, and the line before it has the op as open. If Merge
// returns an error, it has recorded nothing.
func (r *Recorder) Merge(reader io.Reader) error {
	lines, err := r.read(bufio.NewReader(reader))
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(lines)) {
		line := lines[id]
		if line.Open {
			line.Outcome, line.Ended = Unknown, max(r.Now(), line.Began)
		}
		r.Add(line.Op)
	}
	return nil
}

// read returns the last line of each id, in this recorder's time.
func (r *Recorder) read(report *bufio.Reader) (map[uint64]Line, error) {
	lines := make(map[uint64]Line)
	var late time.Duration
	started := false
	for n := 1; ; n++ {
		text, err := report.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
		line, err := parse(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("history: line %d: %w", n, err)
		case !line.Started.IsZero():
			late, started = line.Started.Round(0).Sub(r.started.Round(0)), true
		case !started || line.ID == 0:
			return nil, errors.New("history: the report does not begin with the start of its clock, or an op has no id")
		default:
			lines[line.ID] = shifted(line, late)
		}
	}
}

func shifted(line Line, late time.Duration) Line {
	line.Began += late
	line.Ended += late
	if line.Until != 0 {
		line.Until += late
	}
	return line
}
