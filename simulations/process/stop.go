package process

import (
	"fmt"
	"os"
	"time"

	"github.com/fencepost/fencepost/internal/child"
)

// stop returns when the writer has stood and been continued. Who is to be
// killed stands first, so that nothing happens before.
func (u *unit) stop() {
	u.say(event{Kind: stopping})
	var err error
	switch {
	case u.order.Pause == StopTheWorld:
		err = child.StopWorld(worldPipe)
		u.say(event{Kind: woke})
	case child.CanStopThread:
		err = child.StopThread()
	default: // it is stopped while it waits for this
		err = u.orders.Decode(new(wake))
	}
	if err != nil { // whatever it does from here on would be a figure
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stopAfter stops the world some time later, unless cancel is called before.
// Processes are stopped by the test.
func (u *unit) stopAfter(d time.Duration) (cancel func()) {
	if d == 0 {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(d, func() {
		defer close(done)
		u.mu.Lock()
		u.stopped = true
		u.mu.Unlock()
		u.stop()
	})
	return func() {
		if !timer.Stop() {
			<-done
			return
		}
		u.stop() // its work was over sooner
	}
}
