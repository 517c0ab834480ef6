package redistoken

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// post is the one subscription that this process has at a server. Its boxes
// are guarded by the hall's mutex.
type post struct {
	addr    string // empty where there is one server only
	sub     *redis.PubSub
	ready   chan struct{} // is closed when channels may be added
	boxes   map[string]*box
	looking bool // a look at the server is under way
}

const (
	// heartbeat is how long a subscription may be silent before it is asked
	// whether it lives; as long again, and it is taken for dead.
	heartbeat = 3 * time.Second
	// longestRest is how long a subscription is kept that nobody needs.
	longestRest = time.Minute
)

// post finds or makes the subscription at the server that publishes to b.
func (i *Issuer) post(b *box) (*post, error) {
	var server interface {
		Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	} = i.Client
	addr := ""
	if cluster, ok := i.Client.(sharded); ok {
		master, err := cluster.MasterForKey(i.hall.ctx, b.channel)
		if err != nil {
			cluster.ReloadState(i.hall.ctx)
			return nil, err
		}
		server, addr = master, master.Options().Addr
	}
	i.hall.mu.Lock()
	defer i.hall.mu.Unlock()
	if i.hall.closed {
		return nil, ErrClosed
	}
	p := i.hall.posts[addr]
	if p == nil {
		p = &post{addr: addr, sub: server.Subscribe(i.hall.ctx), ready: make(chan struct{}), boxes: map[string]*box{}}
		i.hall.posts[addr] = p
		i.hall.work.Go(func() { i.read(p) })
	}
	p.boxes[b.channel] = b
	return p, nil
}

// read receives until the subscription breaks or nobody needs it, and then
// makes a new one for who does. It does not let the client renew it, which does
// not say so, asks for all sharded channels at once, whatever their slots, and
// may do so at another node.
func (i *Issuer) read(p *post) {
	// The client makes what it reads into at the first read, and looks at it when
	// a subscription cannot be sent, without a lock between the two.
	_, _ = p.sub.ReceiveTimeout(i.hall.ctx, time.Nanosecond)
	close(p.ready)
	err := i.receive(p)
	_ = p.sub.Close() // it is broken, or not needed
	if cluster, ok := i.Client.(sharded); ok {
		cluster.ReloadState(i.hall.ctx)
	}
	i.hall.mu.Lock()
	defer i.hall.mu.Unlock()
	boxes := i.hall.drop(p)
	for _, b := range boxes {
		switch {
		case i.hall.closed:
		case !b.confirmed && permanent(err):
			b.err = err
			close(b.up)
			if i.hall.wanted(&box{channel: b.channel}) { // who is in line already does not hear of it
				i.retry(b)
			}
		case i.hall.wanted(b):
			i.retry(b)
		}
	}
}

// drop forgets p and its boxes. The mutex is held.
func (h *hall) drop(p *post) map[string]*box {
	boxes := p.boxes
	p.boxes = nil
	if h.posts[p.addr] == p {
		delete(h.posts, p.addr)
	}
	for channel := range boxes {
		delete(h.boxes, channel)
	}
	return boxes
}

// rests forgets p if nobody has needed it for long.
func (h *hall) rests(p *post) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.sweep() {
		return false
	}
	h.drop(p)
	return true
}

func (i *Issuer) receive(p *post) error {
	silent, looked := false, time.Now()
	for {
		pause := min(heartbeat, i.hall.mayRest()/4)
		event, err := p.sub.ReceiveTimeout(i.hall.ctx, pause)
		if time.Since(looked) >= pause { // whether it is silent or not
			looked = time.Now()
			i.look(p)
		}
		var timeout net.Error
		switch {
		case err == nil:
			silent = false
		case errors.As(err, &timeout) && timeout.Timeout() && !silent:
			silent = true
			if i.hall.rests(p) {
				return nil
			}
			if err := p.sub.Ping(i.hall.ctx); err != nil {
				return err
			}
			continue
		default:
			return err
		}
		switch event := event.(type) {
		case *redis.Message:
			i.deliver(event.Payload)
		case *redis.Subscription:
			if strings.HasSuffix(event.Kind, "unsubscribe") {
				return errors.New("the channel's slot has moved")
			}
			i.hall.confirm(event.Channel)
		}
	}
}
