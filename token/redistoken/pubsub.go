package redistoken

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/outage"
)

const (
	// keepaliveInterval is how long a subscription may receive nothing before a PING is
	// sent. After another such interval the subscription counts as broken.
	keepaliveInterval = 3 * time.Second
	// subscriptionIdleTimeout is how long a subscription stays open without a waiter.
	subscriptionIdleTimeout = time.Minute

	minReconnectBackoff = 10 * time.Millisecond
	maxReconnectBackoff = 500 * time.Millisecond
)

// subscription is this process's connection to one server for its subscribed channels.
// waitState.mu guards its fields.
type subscription struct {
	addr      string // empty if there is only one server
	pubsub    *redis.PubSub
	ready     chan struct{} // closed when channels may be added
	channels  map[string]*channel
	verifying bool // a verifyServer is in flight
}

// channel is a channel on which this process receives notifications.
// waitState.mu guards its fields.
type channel struct {
	name      string
	settled   chan struct{} // closed when the server has confirmed or refused the subscription
	confirmed bool
	err       error // why the server refused
	listeners int   // callers that wait for settled
	retries   int   // since the last confirmation
}

// subscribed reports whether the process receives notifications for the bucket of k.
func (i *Issuer) subscribed(k *keys) bool {
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	if i.state.closed || i.state.ctx == nil {
		return false
	}
	ch := i.state.channels[i.address(k)[1:]]
	return ch != nil && ch.confirmed
}

// openChannel subscribes to the channel for the bucket of k, and returns when the server
// has confirmed it. If it returns no error, the caller still counts as a listener of the
// channel.
func (i *Issuer) openChannel(ctx context.Context, k *keys) (address string, ch *channel, err error) {
	if address, ch, err = i.addListener(k); err != nil {
		return "", nil, err
	}
	select {
	case <-ch.settled:
		err = ch.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-i.state.ctx.Done():
		err = ErrClosed
	case <-time.After(stallTimeout):
		err = fmt.Errorf("subscribe to %s: %w", ch.name, errStalled)
	}
	if err != nil {
		i.state.mu.Lock()
		defer i.state.mu.Unlock()
		ch.listeners--
	}
	return address, ch, err
}

// addListener finds or creates the channel for k and counts the caller as a listener.
func (i *Issuer) addListener(k *keys) (address string, ch *channel, err error) {
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	if i.state.closed {
		return "", nil, ErrClosed
	}
	i.state.start()
	address = i.address(k)
	if ch = i.state.channels[address[1:]]; ch == nil {
		ch = &channel{name: address[1:], settled: make(chan struct{})}
		i.state.channels[ch.name] = ch
		i.state.background.Go(func() { i.subscribe(ch) })
	}
	ch.listeners++
	i.state.idleSince = time.Now()
	return address, ch, nil
}

// subscribe repeats the request until it is sent, or until no waiter needs ch. The
// receive loop reads the reply.
func (i *Issuer) subscribe(ch *channel) {
	for backoff := minReconnectBackoff; ; backoff = min(2*backoff, maxReconnectBackoff) {
		if i.trySubscribe(ch) {
			return
		}
		select {
		case <-i.state.ctx.Done():
			return
		case <-time.After(backoff):
		}
		if !i.state.dropUnneeded(ch) {
			return
		}
	}
}

// trySubscribe sends the SUBSCRIBE for ch to the server that publishes to it. It returns
// false if the caller must try again.
func (i *Issuer) trySubscribe(ch *channel) (done bool) {
	s, err := i.subscription(ch)
	if err != nil {
		return false
	}
	<-s.ready
	if _, ok := i.Client.(clusterClient); ok {
		err = s.pubsub.SSubscribe(i.state.ctx, ch.name)
	} else {
		err = s.pubsub.Subscribe(i.state.ctx, ch.name)
	}
	if err == nil {
		return true
	}
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	_, mine := s.channels[ch.name]
	delete(s.channels, ch.name)
	return !mine // if not, the receive loop has got the same error and resubscribes
}

// subscription finds or creates the subscription at the server that publishes to ch.
func (i *Issuer) subscription(ch *channel) (*subscription, error) {
	server, addr, err := i.server(i.state.ctx, ch.name)
	if err != nil {
		return nil, err
	}
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	if i.state.closed {
		return nil, ErrClosed
	}
	s := i.state.subscriptions[addr]
	if s == nil {
		s = &subscription{
			addr: addr, pubsub: server.Subscribe(i.state.ctx), ready: make(chan struct{}), channels: map[string]*channel{},
		}
		i.state.subscriptions[addr] = s
		i.state.background.Go(func() { i.receiveLoop(s) })
	}
	s.channels[ch.name] = ch
	return s, nil
}

// receiveLoop receives until the subscription breaks or no waiter needs it. Then it
// resubscribes the channels that waiters need.
//
// The client's own reconnection is not used, for three reasons: it is not reported, it
// subscribes all sharded channels at once without regard to their slots, and it may use
// another node.
func (i *Issuer) receiveLoop(s *subscription) {
	// The client creates its read buffer at the first read, and accesses it without a
	// lock if a SUBSCRIBE cannot be sent. So read once before the first SUBSCRIBE.
	_, _ = s.pubsub.ReceiveTimeout(i.state.ctx, time.Nanosecond)
	close(s.ready)
	err := i.receive(s)
	_ = s.pubsub.Close() // it is broken or not needed
	if cluster, ok := i.Client.(clusterClient); ok {
		cluster.ReloadState(i.state.ctx)
	}
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	channels := i.state.removeSubscription(s)
	for _, ch := range channels {
		switch {
		case i.state.closed:
		case !ch.confirmed && isRefusal(err):
			ch.err = err
			close(ch.settled)
			if i.state.needs(&channel{name: ch.name}) { // waiters that are in the queue already do not read ch.err
				i.resubscribe(ch)
			}
		case i.state.needs(ch):
			i.resubscribe(ch)
		}
	}
}

// receive reads from s until it fails. It returns nil if s has been idle long enough to
// be closed.
func (i *Issuer) receive(s *subscription) error {
	silent, verified := false, time.Now()
	for {
		interval := min(keepaliveInterval, i.state.maxIdle()/4)
		event, err := s.pubsub.ReceiveTimeout(i.state.ctx, interval)
		if time.Since(verified) >= interval { // also if messages arrive
			verified = time.Now()
			i.verify(s)
		}
		var timeout net.Error
		switch {
		case err == nil:
			silent = false
		case errors.As(err, &timeout) && timeout.Timeout() && !silent:
			silent = true
			if i.state.removeIdle(s) {
				return nil
			}
			if err := s.pubsub.Ping(i.state.ctx); err != nil {
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
			i.state.confirm(event.Channel)
		}
	}
}

// confirm wakes the callers that wait for the channel. It makes the waiters of the
// channel poll, since they may have missed a notification before.
func (s *waitState) confirm(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.channels[name]
	if ch == nil {
		return
	}
	if !ch.confirmed {
		ch.confirmed, ch.retries = true, 0
		close(ch.settled)
	}
	for _, q := range s.queues {
		if w := q.first(); w != nil && q.channel == name {
			w.pollAt(time.Now())
		}
	}
}

// resubscribe subscribes to ch again after a backoff. The caller holds i.state.mu.
func (i *Issuer) resubscribe(ch *channel) {
	if ch.confirmed || ch.err != nil {
		ch = &channel{name: ch.name, settled: make(chan struct{}), retries: ch.retries}
	}
	i.state.channels[ch.name] = ch
	backoff := min(minReconnectBackoff<<ch.retries, maxReconnectBackoff)
	ch.retries = min(ch.retries+1, 10)
	i.state.background.Go(func() {
		select {
		case <-i.state.ctx.Done():
		case <-time.After(backoff):
			i.subscribe(ch)
		}
	})
}

// isRefusal reports whether err is a refusal that a retry does not change.
func isRefusal(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) || outage.Is(err) {
		return false
	}
	kind, _, _ := strings.Cut(reply.Error(), " ")
	return kind == "ERR" || kind == "NOPERM" || kind == "NOAUTH" || kind == "WRONGPASS"
}

// needs reports whether a listener or a waiter needs ch. The caller holds s.mu.
func (s *waitState) needs(ch *channel) bool {
	if ch.listeners > 0 {
		return true
	}
	for _, q := range s.queues {
		if q.channel == ch.name && len(q.waiters) > 0 {
			return true
		}
	}
	return false
}

// dropUnneeded deletes ch and returns false if no waiter needs it.
func (s *waitState) dropUnneeded(ch *channel) (needed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.needs(ch) {
		return true
	}
	delete(s.channels, ch.name)
	return false
}

// removeIdle deletes sub and returns true if there has been no waiter for the idle
// timeout.
func (s *waitState) removeIdle(sub *subscription) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sweep() {
		return false
	}
	s.removeSubscription(sub)
	return true
}

// removeSubscription deletes sub and its channels. The caller holds s.mu.
func (s *waitState) removeSubscription(sub *subscription) map[string]*channel {
	channels := sub.channels
	sub.channels = nil
	if s.subscriptions[sub.addr] == sub {
		delete(s.subscriptions, sub.addr)
	}
	for name := range channels {
		delete(s.channels, name)
	}
	return channels
}

// verify deletes expired leases, and checks in the background that s is at the server
// that publishes. It is not if a master was made a replica and kept its connections: the
// replica forwards what the new master publishes, but the new master does not count its
// subscribers, and hands the lock to the next waiter as well.
func (i *Issuer) verify(s *subscription) {
	i.state.mu.Lock()
	defer i.state.mu.Unlock()
	i.state.sweep()
	if s.verifying || i.state.closed {
		return
	}
	for name, ch := range s.channels {
		if ch.confirmed {
			s.verifying = true
			i.state.background.Go(func() { i.verifyServer(s, name) })
			return
		}
	}
}

// verifyServer requests from the publishing server the number of subscribers of a channel
// to which only this process subscribes. If it is zero, verifyServer closes s, and the
// receive loop opens a new subscription.
func (i *Issuer) verifyServer(s *subscription, name string) {
	ctx, cancel := context.WithTimeout(i.state.ctx, keepaliveInterval)
	defer cancel()
	count := "NUMSUB"
	if _, ok := i.Client.(clusterClient); ok {
		count = "SHARDNUMSUB"
	}
	reply, err := i.run(ctx, numsubScript, &keys{args: [3]any{name}}, count)
	i.state.mu.Lock()
	s.verifying = false
	_, still := s.channels[name]
	i.state.mu.Unlock()
	if err == nil && still && reply == int64(0) {
		_ = s.pubsub.Close()
	}
}
