//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/token"
)

var (
	errAtMost        = errors.New("--at-most has passed: the program was stopped")
	errWatchdogEnded = errors.New("the watchdog has ended")
)

// work runs the program while the lock is held.
func (h *heldLock) work(std cli.Streams, signals <-chan os.Signal) error {
	defer h.watchdog.stop()
	if h.lease.Context().Err() != nil {
		return h.notAcquired(h.lease.Context(), std, context.Cause(h.lease.Context()))
	}
	path, err := exec.LookPath(string(h.Command[0]))
	if err != nil {
		return h.notStarted(err)
	}
	job, err := h.begin(std, path)
	if err != nil {
		return h.exit(StatusFailed, err)
	}
	stopped := h.watch(job, signals)
	job.end(h.Grace)
	return h.result(job, stopped)
}

// begin starts the program when the watchdog has its process group.
func (h *heldLock) begin(std cli.Streams, path string) (*job, error) {
	env, err := h.environment()
	if err != nil {
		return nil, err
	}
	ignoreSuspend()
	becomeSubreaper()
	job, requests, err := startJob(std, env, h.watchdog.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	if h.watchdog.setGroup(job.group) != nil {
		err = errWatchdogEnded
	} else {
		err = launchRequest{os.Getpid(), h.Name, path, h.Command}.send(requests)
	}
	if err != nil {
		job.end(0)
		return nil, err
	}
	return job, nil
}

// watch returns nil when the program has ended, or an error when it is to be ended. The end
// of the watchdog is a reason: if this process were stopped next, nothing would end the
// program.
func (h *heldLock) watch(job *job, signals <-chan os.Signal) error {
	var tooLong <-chan time.Time
	if h.AtMost > 0 {
		tooLong = time.After(h.AtMost)
	}
	for {
		select {
		case <-job.ended:
			return nil
		case s := <-signals:
			job.signal(s)
		case <-tooLong:
			return errAtMost
		case <-h.watchdog.ended:
			return errWatchdogEnded
		case <-h.lease.Context().Done():
			return context.Cause(h.lease.Context())
		}
	}
}

// result returns how the run ended. If this process was stopped until the lease expired,
// the watchdog has killed the program, and the run has lost the lock.
func (h *heldLock) result(job *job, stopped error) error {
	if (stopped == nil || errors.Is(stopped, errWatchdogEnded)) && h.watchdog.late() {
		stopped = &token.LostError{Token: h.lease.Token()}
	}
	switch {
	case stopped == nil:
		return h.exit(job.status, nil)
	case errors.Is(stopped, errAtMost):
		return h.exit(statusTooLong, stopped)
	}
	return h.exit(statusLost, fmt.Errorf("the program was stopped: %w", stopped))
}

// job is the running program, and the process group that it leads.
type job struct {
	cmd      *exec.Cmd
	group    int
	watchdog int           // its process
	ended    chan struct{} // closed when the program itself has ended
	status   int           // the program's status, as shells report it; set before ended is closed
	terminal terminal
}

// startJob starts the launcher, which reads a [launchRequest] from the other end of
// requests.
func startJob(std cli.Streams, env []string, watchdog int) (j *job, requests *os.File, err error) {
	theirs, requests, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	j = &job{cmd: self("launch"), watchdog: watchdog, ended: make(chan struct{})}
	j.cmd.Stdin, j.cmd.Stdout, j.cmd.Stderr, j.cmd.Env = std.In, std.Out, std.Err, env
	j.cmd.ExtraFiles, j.cmd.SysProcAttr = []*os.File{theirs}, ownGroup()
	started := make(chan error)
	go j.run(started)
	if err := <-started; err != nil {
		requests.Close()
		return nil, nil, err
	}
	return j, requests, nil
}

// run starts the program and waits for it on one thread: Linux sends a child its
// parent-death signal when the thread that started the child ends.
func (j *job) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := j.cmd.Start()
	if err == nil {
		j.group = j.cmd.Process.Pid
	}
	started <- err
	if err == nil {
		j.status = j.wait()
		close(j.ended)
	}
}

// wait also waits for orphans that this process has adopted, as a subreaper or as the first
// process of a container: each would stay a zombie. If it gets the watchdog, waitWatchdog
// returns because there is no such child.
func (j *job) wait() int {
	switch status, err := waitStops(j.cmd, -1, j.stopped); {
	case err != nil:
		return StatusFailed
	case status.Signaled():
		return 128 + int(status.Signal())
	default:
		return status.ExitStatus()
	}
}

// waitStops is exec.Cmd's Wait, but waits for children as wait4(2) does, and calls stopped
// each time a signal stops one of them.
func waitStops(cmd *exec.Cmd, children int, stopped func(child int, by syscall.Signal)) (status syscall.WaitStatus, err error) {
	for {
		switch child, err := syscall.Wait4(children, &status, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err == nil && status.Stopped():
			stopped(child, status.StopSignal())
		case err == nil && child != cmd.Process.Pid: // an orphan has ended
		default:
			_ = cmd.Wait() // it fails, since Wait4 has returned, but closes what exec has opened
			return status, err
		}
	}
}

// waitWatchdog returns when the watchdog has ended. A stopped watchdog does not read its
// orders, and would kill the program when it continues. It is continued at once.
func waitWatchdog(cmd *exec.Cmd) {
	_, _ = waitStops(cmd, cmd.Process.Pid, func(watchdog int, _ syscall.Signal) { _ = syscall.Kill(watchdog, syscall.SIGCONT) })
}

func (j *job) signal(s os.Signal) { _ = syscall.Kill(-j.group, s.(syscall.Signal)) }

// end sends SIGTERM to the process group, continues stopped processes, and sends SIGKILL
// after grace. It returns when the program has ended.
func (j *job) end(grace time.Duration) {
	j.signal(syscall.SIGTERM)
	j.signal(syscall.SIGCONT)
	for deadline := time.Now().Add(grace); j.alive(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			j.signal(syscall.SIGKILL)
			break
		}
	}
	<-j.ended
	j.terminal.takeBack()
}

// alive reports whether a process of the group is left. It waits for orphans of the group
// that this process has adopted: until then they count.
func (j *job) alive() bool {
	select {
	case <-j.ended:
	default:
		return true
	}
	for {
		if pid, err := syscall.Wait4(-j.group, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
			return syscall.Kill(-j.group, 0) != syscall.ESRCH
		}
	}
}

// errNoGroups is nil on systems with process groups.
var errNoGroups error

func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(group int) error {
	if group <= 1 { // no group yet: kill(2) takes 0 for its own group, and -1 for every process
		return nil
	}
	return syscall.Kill(-group, syscall.SIGKILL)
}
