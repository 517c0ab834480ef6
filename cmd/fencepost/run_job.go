//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package main

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// job is a command that runs, and the process group that it leads.
type job struct {
	cmd     *exec.Cmd
	group   int
	ended   chan struct{} // closed when the command itself has
	status  int           // then, as shells put it
	console console
}

// startJob starts what becomes the program when something is written to gate.
func startJob(std streams, env []string) (j *job, gate *os.File, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	theirs, gate, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	j = &job{cmd: exec.Command(self, "gate"), ended: make(chan struct{})}
	j.cmd.Stdin, j.cmd.Stdout, j.cmd.Stderr, j.cmd.Env = std.in, std.out, std.err, env
	j.cmd.ExtraFiles, j.cmd.SysProcAttr = []*os.File{theirs}, ownGroup()
	started := make(chan error)
	go j.live(started)
	if err := <-started; err != nil {
		gate.Close()
		return nil, nil, err
	}
	return j, gate, nil
}

// live stays with the command on one thread: it is the death of this thread,
// not of the whole process, that Linux tells a child.
func (j *job) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := j.cmd.Start()
	if err == nil {
		j.group = j.cmd.Process.Pid
	}
	started <- err
	if err == nil {
		j.status = j.wait()
		_ = j.cmd.Wait() // that is done; here it closes what exec has opened
		close(j.ended)
	}
}

// wait is in place of exec.Cmd's, which does not hear of a stop.
func (j *job) wait() int {
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(j.group, &status, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return statusFailed
		case status.Stopped():
			j.stopped(status.StopSignal())
		case status.Signaled():
			return 128 + int(status.Signal())
		case status.Exited():
			return status.ExitStatus()
		}
	}
}
