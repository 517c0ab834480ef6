//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package run

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/fencepost/fencepost/internal/cli"
)

// errNoGroups is returned by every run: without process groups, processes that a program
// has started would continue after the lock is lost.
var errNoGroups = errors.New("this system has no process groups")

func (h *heldLock) work(cli.Streams, <-chan os.Signal) error { return errNoGroups }

func ownGroup() *syscall.SysProcAttr { return nil }

func killGroup(int) error { return errNoGroups }

func waitWatchdog(cmd *exec.Cmd) { _ = cmd.Wait() }
