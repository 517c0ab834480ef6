package run

import (
	"encoding/gob"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
)

// launchRequest is the program that the launcher becomes. It is sent when the watchdog has
// the process group: before that, a run that is stopped could not end its program in time.
type launchRequest struct {
	Parent int    // the id of the run's process
	Name   string // of the lock
	Path   string
	Args   []argument
}

// launchFD is the pipe from which the launcher reads its request.
const launchFD = 3

// LauncherCmd is the hidden command fencepost launch, the process that becomes the
// program.
type LauncherCmd struct{}

// Run is called by kong.
func (LauncherCmd) Run() error {
	var to launchRequest
	pipe := os.NewFile(launchFD, "launch")
	if err := gob.NewDecoder(pipe).Decode(&to); err != nil {
		return &ExitError{Status: StatusFailed} // the run has ended
	}
	pipe.Close()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // main ignores it, and the program would inherit that
	var args []string
	for _, arg := range to.Args {
		args = append(args, string(arg))
	}
	err := dieWithParent(to.Parent)
	if err == nil {
		err = &fs.PathError{Op: "exec", Path: to.Path, Err: syscall.Exec(to.Path, args, os.Environ())}
	}
	return (&Cmd{Name: to.Name}).notStarted(err)
}

// send sends the request to the launcher.
func (to launchRequest) send(pipe *os.File) error {
	return errors.Join(gob.NewEncoder(pipe).Encode(to), pipe.Close())
}
