//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package simulate

import (
	"errors"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

// watch waits for the process and returns how it ended.
func (p *process) watch() string {
	state, err := p.cmd.Process.Wait()
	if err != nil {
		return err.Error()
	}
	return state.String()
}

var errNoStop = errors.New("simulate: this system has no SIGSTOP")

func (p *process) signalStop() error     { return errNoStop }
func (p *process) signalContinue() error { return errNoStop }
