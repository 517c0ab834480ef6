//go:build !linux

package run

import (
	"os"
	"os/exec"
)

// dieWithParent does nothing: on this system only the watchdog ends the program.
func dieWithParent(int) error { return nil }

func becomeSubreaper() {}

func self(command string) *exec.Cmd {
	path, _ := os.Executable() // if it is empty, Start returns an error
	return exec.Command(path, command)
}
