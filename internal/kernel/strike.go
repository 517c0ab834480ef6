package kernel

func (w *world) someone() *process { return w.holders[w.draw.IntN(len(w.holders))] }

func (w *world) pause() { w.still(w.someone(), false) }

func (w *world) suspend() { w.still(w.someone(), true) }

// still has p stand still for a while, its clock too if it is suspended.
func (w *world) still(p *process, suspended bool) {
	if p.stopped {
		return
	}
	d, what := w.upTo(3*ttl), "paused"
	if suspended {
		what = "suspended: its clock stands"
	}
	w.fault(p.name, what, d)
	p.stop(d, suspended)
}

func (w *world) crash() {
	p, d := w.someone(), w.upTo(ttl)
	w.fault(p.name, "crashed", d)
	p.crash(d)
}

// cut lets nothing through between a holder and a server, one way.
func (w *world) cut() {
	p, d := w.someone(), w.upTo(2*ttl)
	if w.service != nil && w.chance(30) {
		w.service.blinded = max(w.service.blinded, w.now+d)
		w.fault(w.store.name, "the service cannot reach its marks", d)
		return
	}
	server, name := atLock+w.lock.primary, "the lock"
	if w.flip() {
		server, name = w.guardian().place, "the "+w.guardian().name
	}
	from, to, way := p.place, server, "cannot reach "
	if w.flip() {
		from, to, way = server, p.place, "does not hear "
	}
	w.network.cut[from][to] = max(w.network.cut[from][to], w.now+d)
	w.fault(p.name, way+name, d)
}

// guardian is who holders write to.
func (w *world) guardian() *node {
	if w.service != nil {
		return &w.service.proxy
	}
	return &w.store.node
}
