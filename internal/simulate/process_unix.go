//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package simulate

import (
	"fmt"
	"syscall"
)

// watch waits for the process in place of exec.Cmd, which hears of its end
// only: here a stop is heard of too. It returns how the process ended.
func (p *process) watch() string {
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return err.Error()
		case status.Stopped():
			p.stopped()
		case status.Exited():
			return fmt.Sprintf("exit status %d", status.ExitStatus())
		case status.Signaled():
			return "signal: " + status.Signal().String()
		}
	}
}

func (p *process) signalStop() error     { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) signalContinue() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
