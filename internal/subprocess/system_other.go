//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package subprocess

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// CanStop reports whether [Process.Stop] works on this system.
const CanStop = false

func attributes() *syscall.SysProcAttr { return nil }

// watch waits for the process and returns how it ended.
func watch(cmd *exec.Cmd, _ func()) string {
	state, err := cmd.Process.Wait()
	if err != nil {
		return err.Error()
	}
	return state.String()
}

var errNoStop = errors.New("this system has no SIGSTOP")

func signalStop(*os.Process) error     { return errNoStop }
func signalContinue(*os.Process) error { return errNoStop }
