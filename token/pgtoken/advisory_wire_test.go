package pgtoken_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// wires are the connections of one pool, whose network fails as a test wants.
type wires struct {
	mu    sync.Mutex
	free  sync.Cond // wakes who waits for held to change
	held  bool      // what is written waits
	gone  bool      // what is written is lost, and a close is not heard of
	dead  bool      // there will be no more of them
	conns []net.Conn
}

// wired is a pool with such a network. It is whole again at the end of the test.
func wired(t *testing.T) (*wires, *pgxpool.Pool) {
	t.Helper()
	w := &wires{}
	w.free.L = &w.mu
	pool := connect(t, func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return w.add(conn)
		}
	})
	t.Cleanup(func() {
		w.hold(false)
		w.kill()
	})
	return w, pool
}

func (w *wires) add(conn net.Conn) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return nil, errors.Join(errors.New("the process is dead"), conn.Close())
	}
	w.conns = append(w.conns, conn)
	return wire{conn, w}, nil
}

func (w *wires) hold(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
	w.free.Broadcast()
}

// vanish lets the server hear nothing of what happens here any more.
func (w *wires) vanish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
}

// kill closes the sockets, as the end of a process does.
func (w *wires) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		conn.Close() // an error only says that it was closed
	}
	w.conns, w.dead = nil, true
}

type wire struct {
	net.Conn
	*wires
}

func (w wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	for w.held {
		w.free.Wait()
	}
	gone := w.gone
	w.mu.Unlock()
	if gone {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

func (w wire) Close() error {
	w.mu.Lock()
	gone := w.gone
	w.mu.Unlock()
	if gone {
		return nil
	}
	return w.Conn.Close()
}
