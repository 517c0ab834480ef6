package kernel

// agenda is what is to happen. Its heap says when, and of an event only where it
// is kept: events themselves are too large to be moved about.
type agenda struct {
	heap   []turn
	events []event
	free   []int // places among events
	count  uint64
}

// turn is a time, the rank among all events in its last bits, and a place.
type turn struct {
	when  uint64
	place int
}

// ranks are how many events a run may have, which is more than endless. It leaves
// 39 hours of simulated time.
const ranks = 1 << 16

// emptied returns an agenda without events, in a's memory.
func (a agenda) emptied() agenda {
	return agenda{heap: a.heap[:0], events: a.events[:0], free: a.free[:0]}
}

func (a *agenda) push(e event) {
	a.count++
	t := turn{uint64(e.at)*ranks + a.count, a.keep(e)}
	a.heap = append(a.heap, t)
	a.rise(len(a.heap)-1, t)
}

func (a *agenda) keep(e event) (place int) {
	if last := len(a.free) - 1; last >= 0 {
		place = a.free[last]
		a.free = a.free[:last]
		a.events[place] = e
		return place
	}
	a.events = append(a.events, e)
	return len(a.events) - 1
}

// pop returns the next event, which is there until another is put down. There
// must be one.
func (a *agenda) pop() *event {
	first, last := a.heap[0], len(a.heap)-1
	moved := a.heap[last]
	a.heap = a.heap[:last]
	if last > 0 {
		a.rise(a.hollow(), moved)
	}
	a.free = append(a.free, first.place)
	return &a.events[first.place]
}

// hollow moves up what comes next, as far as there is anything, and returns where
// there is room then. What goes there was last, and belongs near the bottom.
func (a *agenda) hollow() int {
	heap, i := a.heap, 0
	for 2*i+2 < len(heap) {
		child := 2*i + 1
		if heap[child+1].when < heap[child].when {
			child++
		}
		heap[i] = heap[child]
		i = child
	}
	if child := 2*i + 1; child < len(heap) {
		heap[i] = heap[child]
		i = child
	}
	return i
}

// rise puts t at i, or above.
func (a *agenda) rise(i int, t turn) {
	heap := a.heap
	for i > 0 && t.when < heap[(i-1)/2].when {
		heap[i] = heap[(i-1)/2]
		i = (i - 1) / 2
	}
	heap[i] = t
}
