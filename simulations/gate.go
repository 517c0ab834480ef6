package simulations

import "sync"

// gate is what a writer comes by at each of its steps, and where the director
// stops it. Several goroutines of one writer may come by at once: they are
// stopped, and let through, one by one.
type gate struct {
	parked chan string   // a step, where a writer is stopped
	resume chan struct{} // lets one goroutine through
	opened chan struct{} // closed when nobody is stopped any more

	mu    sync.Mutex
	steps []string
	stop  func(n int, step string) bool // at step n, from 0
	isOff bool
}

func newGate(stop func(n int, step string) bool) *gate {
	return &gate{
		parked: make(chan string), resume: make(chan struct{}), opened: make(chan struct{}),
		stop: stop,
	}
}

// pass returns when the director lets the writer go on with step.
func (g *gate) pass(step string) {
	g.mu.Lock()
	stop := !g.isOff && g.stop(len(g.steps), step)
	g.steps = append(g.steps, step)
	g.mu.Unlock()
	if stop {
		g.park(step)
	}
}

// wait stops a writer that is stopped everywhere where others only wait, and
// reports whether it did. It counts as no step.
func (g *gate) wait(step string) bool {
	g.mu.Lock()
	stop := !g.isOff && g.stop(-1, step)
	g.mu.Unlock()
	if stop {
		g.park(step)
	}
	return stop
}

func (g *gate) park(step string) {
	select {
	case g.parked <- step:
	case <-g.opened:
		return
	}
	select {
	case <-g.resume:
	case <-g.opened:
	}
}

// until sets where the writer is stopped next.
func (g *gate) until(stop func(n int, step string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stop = stop
}

// open lets everybody through from now on.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOff {
		g.isOff = true
		close(g.opened)
	}
}

func (g *gate) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.steps...)
}

// Where a writer can be stopped.
func nowhere(int, string) bool    { return false }
func everywhere(int, string) bool { return true }

func atStep(at int) func(int, string) bool {
	return func(n int, _ string) bool { return n == at }
}

func atName(name string) func(int, string) bool {
	return func(_ int, step string) bool { return step == name }
}
