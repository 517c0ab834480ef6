package kernel

// plea is one question of a wish.
type plea struct {
	*wish
	to   *server
	sent moment
}

func (p *plea) arrive(answer func(granted)) {
	if p.sent.at > p.stamp.at {
		p.stamp = p.sent
	}
	p.to.grant(p.wish, answer)
}

func (p *plea) hear(g granted) { p.told(g, p.sent) }

// miss asks again under the same name, which finds a grant whose answer was lost.
func (p *plea) miss() { p.after(ttl/20, p.ask) }
