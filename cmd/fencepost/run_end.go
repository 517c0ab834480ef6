//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package main

import (
	"os"
	"syscall"
	"time"
)

func (j *job) signal(s os.Signal) { _ = syscall.Kill(-j.group, s.(syscall.Signal)) }

// end returns when the program has ended, and all that it has left in its group:
// they are asked, stopped or not, and after grace they are killed.
func (j *job) end(grace time.Duration) {
	j.signal(syscall.SIGTERM)
	j.signal(syscall.SIGCONT)
	for deadline := time.Now().Add(grace); j.lives(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			j.signal(syscall.SIGKILL)
			break
		}
	}
	<-j.ended
	j.console.takeBack()
}

// lives reports whether anybody of the group is left. Orphans of it come to this
// process where it is the first of a container, and count until they are waited
// for.
func (j *job) lives() bool {
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
