package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
)

// become is what a process is to become, once the minder knows of it: a run that
// was stopped between the two could not end its program in time.
type become struct {
	Parent int
	Name   string // of the lock
	Path   string
	Args   []string
}

// gateFile is the pipe that it comes from.
const gateFile = 3

type gateCmd struct{}

// Run is called by kong, in the process that becomes the program.
func (gateCmd) Run() error {
	var to become
	pipe := os.NewFile(gateFile, "gate")
	if err := json.NewDecoder(pipe).Decode(&to); err != nil {
		return &ranError{status: statusFailed} // there is nobody any more
	}
	pipe.Close()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // main ignores it, which exec would keep
	err := dieWith(to.Parent)
	if err == nil {
		err = &fs.PathError{Op: "exec", Path: to.Path, Err: syscall.Exec(to.Path, to.Args, os.Environ())}
	}
	return (&runCmd{Name: to.Name}).unstartable(err)
}

// open lets the process go on.
func (to become) open(pipe *os.File) error {
	return errors.Join(json.NewEncoder(pipe).Encode(to), pipe.Close())
}
