package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fencepost/fencepost/internal/child"
	"github.com/fencepost/fencepost/simulations/history"
)

// peer is a writer's process, as the test has it.
type peer struct {
	*child.Process[event]
	name   string
	report *os.File
	world  *child.World // nil where there is none
	heard  []event      // and nobody has asked for it yet
}

// start starts a writer, which must be ended unless there is an error.
func start(ctx context.Context, s setup) (p *peer, err error) {
	p = &peer{name: s.Name}
	defer func() {
		if err != nil {
			p.end(ctx)
		}
	}()
	if err := p.launch(); err != nil {
		return p, err
	}
	if err := p.Send(s); err != nil {
		return p, err
	}
	_, err = p.await(ctx, ready)
	return p, err
}

func (p *peer) launch() (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("process: %w", err)
	}
	if p.report, err = os.CreateTemp("", "fencepost-report-"); err != nil {
		return fmt.Errorf("process: %w", err)
	}
	_ = os.Remove(p.report.Name()) // it is there for as long as it is open
	files := []*os.File{p.report}
	if child.CanStopWorld {
		if p.world, err = child.NewWorld(); err != nil {
			return err
		}
		files = append(files, p.world.File())
	}
	p.Process, err = child.Start[event](child.Command{
		Name: "writer " + p.name, Argv: []string{self}, Env: []string{envWriter + "=" + p.name}, Files: files,
	})
	return err
}

// end ends the process, stopped or not.
func (p *peer) end(ctx context.Context) {
	if p.Process != nil {
		p.End(ctx)
	}
	if p.world != nil {
		_ = p.world.Close()
	}
	if p.report != nil {
		_ = p.report.Close()
	}
}

// tell adds what the writer did to r, also where it is dead.
func (p *peer) tell(r *history.Recorder) error {
	size, err := p.report.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(errors.New("process: report"), err)
	}
	return r.Merge(io.NewSectionReader(p.report, 0, size))
}
