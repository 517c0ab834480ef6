//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/fencepost/fencepost/token"
)

var errAtMost = errors.New("--at-most has passed: the command was stopped")

// work runs the program under the lock.
func (h *runHeld) work(std streams, signals <-chan os.Signal) error {
	if h.lease.Context().Err() != nil {
		return h.refused(h.lease.Context(), std, context.Cause(h.lease.Context()))
	}
	path, err := exec.LookPath(h.Command[0])
	if err != nil {
		return h.unstartable(err)
	}
	if err := h.minder.start(); err != nil {
		return h.end(statusFailed, err)
	}
	defer h.minder.stop()
	job, err := h.begin(std, path)
	if err != nil {
		return h.end(statusFailed, err)
	}
	stopped := h.watch(job, signals)
	job.end(h.Grace)
	return h.verdict(job, stopped)
}

// begin lets the program begin when the minder knows of it.
func (h *runHeld) begin(std streams, path string) (*job, error) {
	env, err := h.environment()
	if err != nil {
		return nil, err
	}
	unsuspended()
	adopt()
	job, gate, err := startJob(std, env)
	if err != nil {
		return nil, err
	}
	h.minder.mind(job.group)
	if err := (become{os.Getpid(), h.Name, path, h.Command}).open(gate); err != nil {
		job.end(0)
		return nil, err
	}
	return job, nil
}

// watch returns when the program has ended, nil, or is to be ended.
func (h *runHeld) watch(job *job, signals <-chan os.Signal) error {
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
		case <-h.lease.Context().Done():
			return context.Cause(h.lease.Context())
		}
	}
}

// verdict is what the run comes to. Where this process was stopped, and the
// lease ran out, the minder has ended the program, and its status says nothing.
func (h *runHeld) verdict(job *job, stopped error) error {
	if stopped == nil && h.minder.late() {
		stopped = &token.LostError{Token: h.lease.Token()}
	}
	switch {
	case stopped == nil:
		return h.end(job.status, nil)
	case errors.Is(stopped, errAtMost):
		return h.end(statusTooLong, stopped)
	}
	return h.end(statusLost, fmt.Errorf("the command was stopped: %w", stopped))
}
