package simulate

import (
	"context"

	"github.com/fencepost/fencepost/internal/child"
)

// process is a writer's process, as the parent has it.
type process struct {
	*child.Process[Event]
	name  string
	pause Pause
}

// startProcess starts argv as a writer, which must be ended unless there is an
// error.
func startProcess(argv []string, s setup) (*process, error) {
	started, err := child.Start[Event](child.Command{Name: "writer " + s.Name, Argv: argv})
	if err != nil {
		return nil, err
	}
	p := &process{Process: started, name: s.Name, pause: s.Pause}
	if err := p.Send(s); err != nil {
		p.End(context.Background())
		return nil, err
	}
	return p, nil
}

// suspend returns when the process, which has announced its pause, stands.
func (p *process) suspend(ctx context.Context) error {
	switch p.pause {
	case InProcess:
		return nil
	case StoppedByParent:
		if err := p.Stop(); err != nil {
			return err
		}
	}
	return p.Stands(ctx)
}

// resume lets a suspended process go on.
func (p *process) resume() error {
	if p.pause != InProcess {
		if err := p.Continue(); err != nil {
			return err
		}
	}
	if p.pause == SelfStopped {
		return nil
	}
	return p.Send(wake{})
}
