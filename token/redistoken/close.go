package redistoken

import "github.com/redis/go-redis/v9"

// Close ends the subscriptions that waiting has begun, and what runs or rests in
// the background; calls of Wait that wait return [ErrClosed]. Everything
// that need not wait goes on to work. The Client stays open. An Issuer that
// nobody waits at ends its subscriptions after a minute by itself.
func (i *Issuer) Close() error {
	i.hall.mu.Lock()
	i.hall.closed = true
	var open []*redis.PubSub
	for _, p := range i.hall.posts {
		open = append(open, p.sub)
	}
	if i.hall.end != nil {
		i.hall.end()
	}
	i.hall.mu.Unlock()
	for _, sub := range open {
		_ = sub.Close() // it may have broken by itself
	}
	i.hall.work.Wait()
	i.pump.close()
	return nil
}
