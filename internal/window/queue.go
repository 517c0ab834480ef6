package window

// queue is a list whose links are in the places themselves.
type queue struct{ first, last *Place }

func (q *queue) push(p *Place) {
	p.prev, p.next = q.last, nil
	if q.last == nil {
		q.first = p
	} else {
		q.last.next = p
	}
	q.last = p
}

func (q *queue) remove(p *Place) {
	if p.prev == nil {
		q.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}
