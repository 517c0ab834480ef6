//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package subprocess

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// CanStop reports whether [Process.Stop] works on this system.
const CanStop = true

// watch waits for the process in place of exec.Cmd, which reports only its end. watch
// also calls stopped at each stop. It returns how the process ended.
func watch(cmd *exec.Cmd, stopped func()) string {
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return err.Error()
		case status.Stopped():
			stopped()
		case status.Exited():
			return fmt.Sprintf("exit status %d", status.ExitStatus())
		case status.Signaled():
			return "signal: " + status.Signal().String()
		}
	}
}

func signalStop(p *os.Process) error     { return p.Signal(syscall.SIGSTOP) }
func signalContinue(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
