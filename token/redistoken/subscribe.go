package redistoken

import (
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	leastPause = 10 * time.Millisecond
	mostPause  = 500 * time.Millisecond
)

// subscribe sends the subscription for b, until it is sent or nobody needs it.
// The answer comes to read.
func (i *Issuer) subscribe(b *box) {
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		if i.attach(b) {
			return
		}
		select {
		case <-i.hall.ctx.Done():
			return
		case <-time.After(pause):
		}
		if !i.hall.needs(b) {
			return
		}
	}
}

// needs forgets b if nobody waits for its messages.
func (h *hall) needs(b *box) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wanted(b) {
		return true
	}
	delete(h.boxes, b.channel)
	return false
}

// attach sends the subscription for b to the server that publishes there, and
// answers whether another attempt is somebody else's task.
func (i *Issuer) attach(b *box) (done bool) {
	p, err := i.post(b)
	if err != nil {
		return false
	}
	<-p.ready
	if _, ok := i.Client.(sharded); ok {
		err = p.sub.SSubscribe(i.hall.ctx, b.channel)
	} else {
		err = p.sub.Subscribe(i.hall.ctx, b.channel)
	}
	if err == nil {
		return true
	}
	i.hall.mu.Lock()
	defer i.hall.mu.Unlock()
	_, mine := p.boxes[b.channel]
	delete(p.boxes, b.channel)
	return !mine // read has seen the same error, and taken the box along
}

// retry subscribes again, soon. The mutex is held.
func (i *Issuer) retry(b *box) {
	if b.confirmed || b.err != nil {
		tries := b.tries
		if b.confirmed {
			tries = 0
		}
		b = &box{channel: b.channel, up: make(chan struct{}), tries: tries}
	}
	i.hall.boxes[b.channel] = b
	pause := min(leastPause<<b.tries, mostPause)
	b.tries = min(b.tries+1, 10)
	i.hall.work.Go(func() {
		select {
		case <-i.hall.ctx.Done():
		case <-time.After(pause):
			i.subscribe(b)
		}
	})
}

// permanent says that the server will not take a subscription, however often it
// is asked.
func permanent(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	kind, _, _ := strings.Cut(reply.Error(), " ")
	return kind == "ERR" || kind == "NOPERM" || kind == "NOAUTH" || kind == "WRONGPASS"
}
