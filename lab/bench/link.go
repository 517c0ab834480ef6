package main

import (
	"context"
	"net"
	"runtime"
	"time"

	"github.com/fencepost/fencepost/internal/subprocess"
)

// The link is a relay that holds each chunk for half of the round trip, in both
// directions. It is a process of its own: a thread that sleeps in the kernel occupies one
// of a Go program's processors for a while, which the measured program must not lose.
const (
	oneWay = 125 * time.Microsecond

	// relayRole is the role of a process that is a relay. It receives its server's
	// address, and reports its own address.
	relayRole = "relay"
	// relayProcessors is large enough that sleeping threads do not delay others.
	relayProcessors = 16
)

// relayProcess is a started relay.
type relayProcess struct {
	*subprocess.Process[string]
	addr string
}

func startRelay(target string) *relayProcess {
	self := must(subprocess.Self("the relay to "+target, relayRole))
	p, addr, err := subprocess.Open[string](context.Background(), self, target)
	check(err)
	return &relayProcess{p, addr}
}

func (r *relayProcess) close() { r.End(context.Background()) }

// relayIfAsked runs a process that is a relay. It ends when its parent closes the input
// or ends.
func relayIfAsked() {
	subprocess.Serve(map[string]func(*subprocess.Parent) error{relayRole: func(parent *subprocess.Parent) error {
		runtime.GOMAXPROCS(relayProcessors)
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
		ctx, stop := parent.UntilClosed(context.Background())
		defer stop()
		<-ctx.Done()
		return nil
	}})
}

func relay(listener net.Listener, target string) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer near.Close()
			far, err := net.Dial("tcp", target)
			if err != nil {
				return // the client sees the end of its connection
			}
			defer far.Close()
			answered := make(chan struct{})
			go func() { defer close(answered); carry(near, far) }()
			carry(far, near)
			<-answered
		}()
	}
}

// chunk is the result of one read.
type chunk struct {
	bytes []byte
	due   time.Time
}

// carry writes to dst what it reads from src, each chunk when it is due. It returns when
// src has ended.
func carry(dst, src net.Conn) {
	chunks := make(chan chunk, 1024)
	done := make(chan struct{})
	go func() { defer close(done); deliver(dst, chunks) }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		if n > 0 {
			chunks <- chunk{append([]byte(nil), buffer[:n]...), time.Now().Add(oneWay)}
		}
		if err != nil {
			break
		}
	}
	close(chunks)
	<-done
	if tcp, ok := dst.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // after an error the other direction ends too
	}
}

// deliver has a thread of its own, whose sleep is precise: Go's timers have a resolution
// of a millisecond in an idle process.
func deliver(dst net.Conn, chunks <-chan chunk) {
	runtime.LockOSThread() // never unlocked: the thread ends, and its slack with it
	preciseSleep()
	var broken bool
	for c := range chunks {
		if ahead := time.Until(c.due); ahead > 0 {
			sleep(ahead)
		}
		if !broken {
			_, err := dst.Write(c.bytes)
			broken = err != nil
		}
	}
}
