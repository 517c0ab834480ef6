package rounds

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
)

// The parent writes one setup and then orders to a writer's standard input. The writer
// writes events to its standard output. Each is a JSON value on one line. The writer's
// operations go to a file, in the format of package history.

// setup is the configuration of a writer.
type setup struct {
	Name    string // "A" or "B"
	Subject string
	Conf    string
	Twin    bool
	Report  string // the path of the file for its operations, until it is ready
}

// order is a request to a writer for one unit of work.
type order struct {
	Pause Pause            `json:",omitempty"`
	By    subprocess.Pause `json:",omitempty"`
	Step  string           `json:",omitempty"` // stop at this step; empty: at none
	Nth   int              `json:",omitempty"` // at the nth step of that name
}

// by returns how the writer stops itself.
func (o order) by() subprocess.Pause { return cmp.Or(o.By, subprocess.BestPause()) }

type kind string

const (
	ready    kind = "ready"    // waits for orders
	stopping kind = "stopping" // is about to be stopped
	answered kind = "answered" // its unit has ended
	failed   kind = "failed"   // did not reach its unit: see Text
)

// event is a writer's report. Most of Answer is for an answered unit.
type event struct {
	Kind kind
	Answer
}

// peer is a writer's process, seen from its parent.
type peer struct {
	*subprocess.Process[event]
	name     string
	report   *os.File
	received []event // not returned by await yet
}

// start starts a writer. If it returns no error, the caller must end the writer.
func start(ctx context.Context, c subprocess.Command, s setup) (p *peer, err error) {
	p = &peer{name: s.Name}
	defer func() {
		if err != nil {
			p.end(ctx)
		}
	}()
	if p.report, err = os.CreateTemp("", "fencepost-report-"); err != nil {
		return p, fmt.Errorf("report: %w", err)
	}
	s.Report = p.report.Name()
	defer os.Remove(s.Report) // the open file remains readable; on Windows, end removes it
	c.Name = "writer " + s.Name
	p.Process, _, err = subprocess.Open[event](ctx, c, s) // returns when it is ready
	return p, err
}

// end ends the process, even if it is stopped.
func (p *peer) end(ctx context.Context) {
	if p.Process != nil {
		p.End(ctx)
	}
	if p.report != nil {
		_ = p.report.Close()
		_ = os.Remove(p.report.Name())
	}
}

// tell adds the writer's operations to r, even if the writer is dead.
func (p *peer) tell(r *history.Recorder) error {
	size, err := p.report.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return r.Merge(io.NewSectionReader(p.report, 0, size))
}

// await returns the next event of one of the kinds, and keeps others for later.
func (p *peer) await(ctx context.Context, want ...kind) (event, error) {
	for n := 0; ; n++ {
		if n == len(p.received) {
			e, err := p.Next(ctx)
			if err != nil {
				return e, err
			}
			p.received = append(p.received, e)
		}
		e := p.received[n]
		if e.Kind == failed {
			return e, fmt.Errorf("writer %s: %s", p.name, e.Text)
		}
		if slices.Contains(want, e.Kind) {
			p.received = slices.Delete(p.received, n, n+1)
			return e, nil
		}
	}
}

// answer returns p's answer to its order.
func (p *peer) answer(ctx context.Context) (Answer, error) {
	e, err := p.await(ctx, answered)
	return e.Answer, err
}

// suspend sends p its order, and returns when p is stopped or dead. It returns false if
// p's unit ended before it reached the step.
func (p *peer) suspend(ctx context.Context, o order, moment time.Duration) (stands bool, err error) {
	if err := p.Send(o); err != nil {
		return false, err
	}
	if moment > 0 {
		time.Sleep(moment)
		return true, p.hit(ctx, o.Pause)
	}
	e, err := p.await(ctx, stopping, answered)
	if err != nil {
		return false, err
	}
	if e.Kind == answered { // it will not be stopped
		p.received = append(p.received, e)
		return false, nil
	}
	if err := p.Suspend(ctx, o.by()); err != nil {
		return true, err
	}
	if o.Pause == SIGKILL {
		p.Kill()
	}
	return true, nil
}

// hit stops or kills p from the parent, whatever p is doing.
func (p *peer) hit(ctx context.Context, pause Pause) error {
	if pause == SIGKILL {
		p.Kill()
		return nil
	}
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Stands(ctx)
}

// resume lets p, which is stopped, continue.
func (p *peer) resume(o order) error {
	if o.Step == "" { // the parent stopped it
		return p.Continue()
	}
	return p.Resume(o.by())
}
