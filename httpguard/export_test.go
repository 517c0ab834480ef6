package httpguard

// Entries counts the resources that w knows something of.
func Entries(w *Window) int {
	n := 0
	w.each(func(*gate) { n++ })
	return n
}

// Waiting counts the requests that wait in w.
func Waiting(w *Window) int {
	n := 0
	w.each(func(g *gate) { n += g.Waiting() })
	return n
}

func (w *Window) each(visit func(*gate)) {
	for i := range w.rooms {
		r := &w.rooms[i]
		r.mu.Lock()
		for g := r.gates; g != nil; g = g.next {
			visit(g)
		}
		r.mu.Unlock()
	}
}
