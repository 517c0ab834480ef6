// Package slowlink is a link to a server with a round trip of 0.25 ms, for measurements. It is a
// relay that holds each chunk for half of that in both directions.
package slowlink

import (
	"context"
	"net"
	"runtime"
	"time"

	"github.com/fencepost/fencepost/internal/subprocess"
)

// OneWay is how long a chunk is held.
const OneWay = 125 * time.Microsecond

// The relay is a process of its own: a thread that sleeps in the kernel occupies one of a Go
// program's processors for a while, which the measured program must not lose.
const (
	// role is that of a process that is a relay. It receives its server's address, and
	// reports its own address.
	role = "relay"
	// processors is large enough that sleeping threads do not delay others.
	processors = 16
)

// Start returns the address of a new relay to target, and a function that ends it, and its
// connections. The program must call [ServeIfAsked].
func Start(target string) (addr string, end func(), err error) {
	self, err := subprocess.Self("the relay to "+target, role)
	if err != nil {
		return "", nil, err
	}
	p, addr, err := subprocess.Open[string](context.Background(), self, target)
	return addr, func() { p.End(context.Background()) }, err
}

// ServeIfAsked runs a process that is a relay, and returns in any other. It must be the first
// call of main or TestMain. The relay ends when its parent closes the input or ends.
func ServeIfAsked() {
	subprocess.Serve(map[string]func(*subprocess.Parent) error{role: func(parent *subprocess.Parent) error {
		runtime.GOMAXPROCS(processors)
		var target string
		if err := parent.Receive(&target); err != nil {
			return err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go relay(listener, target)
		parent.Report(listener.Addr().String())
		return subprocess.Each(parent, func(string) error { return nil })
	}})
}

func relay(listener net.Listener, target string) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", target)
		if err != nil {
			_ = near.Close() // the client sees the end of its connection
			continue
		}
		go carry(near, far)
		go carry(far, near)
	}
}

// chunk is the result of one read.
type chunk struct {
	bytes []byte
	due   time.Time
}

// carry writes to dst what it reads from src, each chunk when it is due, and closes dst
// when src has ended.
func carry(dst, src net.Conn) {
	chunks := make(chan chunk, 1024)
	defer close(chunks)
	go deliver(dst, chunks)
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		if err != nil {
			return
		}
		chunks <- chunk{append([]byte(nil), buffer[:n]...), time.Now().Add(OneWay)}
	}
}

// deliver has a thread of its own, whose sleep is precise: Go's timers have a resolution
// of a millisecond in an idle process.
func deliver(dst net.Conn, chunks <-chan chunk) {
	runtime.LockOSThread() // never unlocked: the thread ends, and its slack with it
	preciseSleep()
	defer dst.Close()
	for c := range chunks {
		if ahead := time.Until(c.due); ahead > 0 {
			sleep(ahead)
		}
		_, _ = dst.Write(c.bytes) // after an error src ends too
	}
}
