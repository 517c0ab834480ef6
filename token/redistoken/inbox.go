package redistoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrClosed is found in the error of a Wait that would have to wait when the
// Issuer is closed.
var ErrClosed = errors.New("redistoken: issuer is closed")

// box is a channel that messages for this process are published to. It is
// guarded by the hall's mutex.
type box struct {
	channel   string
	up        chan struct{} // is closed when the server has confirmed it, or refused it
	confirmed bool
	err       error // why it was refused
	listeners int   // who wait for up
	tries     int   // since it was confirmed
}

// inbox is how line.lua reaches this process with messages for the bucket of k.
// In a cluster a message counts those who hear it only on the node that has the
// bucket's slot, and only as a sharded one: so each bucket has its own.
func (i *Issuer) inbox(k *keys) string {
	if _, ok := i.Client.(sharded); ok {
		return "s" + k.base + "inbox:" + i.hall.id
	}
	return "p" + i.prefix() + ":inbox:" + i.hall.id
}

// sharded is a [redis.ClusterClient], or what wraps one.
type sharded interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
}

// listening says that messages for the bucket of k would arrive.
func (i *Issuer) listening(k *keys) bool {
	i.hall.mu.Lock()
	defer i.hall.mu.Unlock()
	if i.hall.closed || i.hall.ctx == nil {
		return false
	}
	b := i.hall.boxes[i.inbox(k)[1:]]
	return b != nil && b.confirmed
}

// listen returns when messages for the bucket of k will arrive, and by which
// inbox. Without an error the caller counts as listener still.
func (i *Issuer) listen(ctx context.Context, k *keys) (inbox string, b *box, err error) {
	if inbox, b, err = i.open(k); err != nil {
		return "", nil, err
	}
	if err = i.confirmed(ctx, b); err != nil {
		i.hall.mu.Lock()
		defer i.hall.mu.Unlock()
		b.listeners--
	}
	return inbox, b, err
}

func (i *Issuer) confirmed(ctx context.Context, b *box) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-b.up:
		return b.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-i.hall.ctx.Done():
		return ErrClosed
	case <-timer.C:
		return fmt.Errorf("subscribe to %s: %w", b.channel, errHung)
	}
}

// open finds or makes the box for k, and counts the caller as listener.
func (i *Issuer) open(k *keys) (inbox string, b *box, err error) {
	i.hall.mu.Lock()
	defer i.hall.mu.Unlock()
	if i.hall.closed {
		return "", nil, ErrClosed
	}
	i.hall.start()
	inbox = i.inbox(k)
	if b = i.hall.boxes[inbox[1:]]; b == nil {
		b = i.connect(inbox[1:])
	}
	b.listeners++
	i.hall.since = time.Now()
	return inbox, b, nil
}

// connect makes a box and subscribes to its channel. The mutex is held.
func (i *Issuer) connect(channel string) *box {
	b := &box{channel: channel, up: make(chan struct{})}
	i.hall.boxes[channel] = b
	i.hall.work.Go(func() { i.subscribe(b) })
	return b
}

// wanted says that somebody waits for messages of b. The mutex is held.
func (h *hall) wanted(b *box) bool {
	if b.listeners > 0 {
		return true
	}
	for _, l := range h.lines {
		if l.channel == b.channel && len(l.waiters) > 0 {
			return true
		}
	}
	return false
}

// confirm lets those who wait for b go on, and has all ask again who may have
// missed a message before.
func (h *hall) confirm(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.boxes[channel]
	if b == nil {
		return
	}
	if !b.confirmed {
		b.confirmed = true
		close(b.up)
	}
	for _, l := range h.lines {
		if w := l.first(); w != nil && l.channel == channel {
			w.remind(time.Now())
		}
	}
}
