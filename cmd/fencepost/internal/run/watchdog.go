package run

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
)

// watchdog is a second process, which kills the program if the first process cannot,
// because it was killed, or stopped until the lease expired.
type watchdog struct {
	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended
	group  int           // the program's process group; 0 if there is none
	end    time.Time     // when the program must have ended
	orders *json.Encoder
}

// watchdogOrder makes the watchdog kill Group when Left has passed, or at the end of its
// input. Each order replaces the previous one.
type watchdogOrder struct {
	Group int
	Left  time.Duration
}

// startWatchdog starts the process, which has no group to kill yet. If this process is
// killed before it has one, the watchdog ends.
func startWatchdog() (m *watchdog, err error) {
	m = &watchdog{cmd: self("watchdog"), ended: make(chan struct{})}
	m.cmd.Env = withoutURLs(os.Environ())
	m.cmd.SysProcAttr = ownGroup() // Ctrl-C must not end it
	pipe, err := m.cmd.StdinPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	m.orders = json.NewEncoder(pipe)
	go func() {
		defer close(m.ended)
		waitWatchdog(m.cmd)
	}()
	return m, nil
}

// setGroup sets the process group to be killed. It returns an error if the watchdog has
// ended.
func (m *watchdog) setGroup(group int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.group = group
	return m.send()
}

// extend sets how long the lease lasts from now.
func (m *watchdog) extend(left time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end = time.Now().Add(left)
	_ = m.send() // an error means that the watchdog has ended, which watch returns
}

func (m *watchdog) send() error {
	if m.group == 0 {
		return nil
	}
	return m.orders.Encode(watchdogOrder{Group: m.group, Left: time.Until(m.end)})
}

// late reports whether the watchdog had to kill the program.
func (m *watchdog) late() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().After(m.end)
}

// stop kills the watchdog. The end of its input would make it kill the group.
func (m *watchdog) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.group = 0
	_ = m.cmd.Process.Kill()
	<-m.ended
}

// WatchdogCmd is the hidden command fencepost watchdog.
type WatchdogCmd struct{}

// Run is called by kong.
func (WatchdogCmd) Run(std cli.Streams) error {
	_ = os.WriteFile("/proc/self/comm", []byte("fencepost"), 0) // the kernel's log names it: by its path, it would be "exe"
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	orders := make(chan watchdogOrder)
	go func() {
		defer close(orders)
		for dec := json.NewDecoder(std.In); ; {
			var order watchdogOrder
			if dec.Decode(&order) != nil {
				return
			}
			orders <- order
		}
	}()
	return killGroup(waitUntilDue(orders))
}

// waitUntilDue returns the group that is to be killed, at the time of the last order or
// when orders is closed.
func waitUntilDue(orders <-chan watchdogOrder) (group int) {
	var end <-chan time.Time
	for {
		select {
		case order, more := <-orders:
			if !more {
				return group
			}
			group, end = order.Group, time.After(order.Left)
		case <-end:
			return group
		}
	}
}
