package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// minder is a second process, which kills the command where the first cannot
// any more: killed itself, or stopped for longer than the lease lasts.
type minder struct {
	mu     sync.Mutex
	cmd    *exec.Cmd
	pipe   io.WriteCloser
	group  int       // the command's
	end    time.Time // when the command must be gone
	orders *json.Encoder
}

// minded is what the minder is told: kill the group in so long, or when there
// is nobody any more who tells it something else.
type minded struct {
	Group int
	Left  time.Duration
}

// start has the minder wait for the command.
func (m *minder) start() (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	m.cmd = exec.Command(self, "minder")
	m.cmd.SysProcAttr = ownGroup() // a Ctrl-C is not for it
	if m.pipe, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	m.orders = json.NewEncoder(m.pipe)
	return m.cmd.Start()
}

// mind entrusts it with the command.
func (m *minder) mind(group int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.group = group
	m.tell()
}

// extend is told how long the lease lasts.
func (m *minder) extend(left time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end = time.Now().Add(left)
	m.tell()
}

func (m *minder) tell() {
	if m.group != 0 { // an error says that it is gone: then this process is alone
		_ = m.orders.Encode(minded{Group: m.group, Left: time.Until(m.end)})
	}
}

// late reports whether the minder has had to kill the command.
func (m *minder) late() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().After(m.end)
}

// stop ends the minder, before it could take the end of its input for more than
// that.
func (m *minder) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.group = 0
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}
