package redistoken

import "context"

// look forgets who has lost a lock, and ends p where it is at another server
// than the one that publishes. So it is where a master was made a replica and
// kept its connections: what is published then reaches p, but counts nobody who
// hears it, and the lock goes to the next as well.
func (i *Issuer) look(p *post) {
	i.hall.mu.Lock()
	defer i.hall.mu.Unlock()
	i.hall.sweep()
	if p.looking || i.hall.closed {
		return
	}
	for channel, b := range p.boxes {
		if b.confirmed {
			p.looking = true
			i.hall.work.Go(func() { i.compare(p, channel) })
			return
		}
	}
}

// compare asks the server that publishes who hears channel: this process alone
// subscribes to it.
func (i *Issuer) compare(p *post, channel string) {
	ctx, cancel := context.WithTimeout(i.hall.ctx, heartbeat)
	defer cancel()
	count := "NUMSUB"
	if _, ok := i.Client.(sharded); ok {
		count = "SHARDNUMSUB"
	}
	reply, err := i.run(ctx, lookScript, &keys{args: [3]any{channel}}, count)
	i.hall.mu.Lock()
	p.looking = false
	_, still := p.boxes[channel]
	i.hall.mu.Unlock()
	if err == nil && still && reply == int64(0) {
		_ = p.sub.Close() // read makes a new one
	}
}
