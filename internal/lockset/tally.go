package lockset

import "sync"

// tally keeps what the workers report. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	answers  map[Way]map[int64]answer
	troubles int
	trouble  string // the last
}

// hear takes one event. What was begun and never answered is unknown.
func (t *tally) hear(e event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answers == nil {
		t.answers = make(map[Way]map[int64]answer)
	}
	if t.answers[e.Way] == nil {
		t.answers[e.Way] = make(map[int64]answer)
	}
	switch e.Kind {
	case begun:
		t.answers[e.Way][e.Value] = unknown
	case answered:
		t.answers[e.Way][e.Value] = e.Answer
	case trouble:
		t.troubles++
		t.trouble = string(e.Way) + ": " + e.Text
	}
}

// count compares what was told with what is there.
func (t *tally) count(way Way, members []int64) Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := Count{Way: way}
	present := make(map[int64]bool)
	for _, m := range members {
		told, begun := t.answers[way][m]
		if present[m] || !begun || told == refused || told == failed {
			c.Ghosts++
		}
		present[m] = true
	}
	for value, told := range t.answers[way] {
		c.Begun++
		switch told {
		case acknowledged:
			c.Acknowledged++
			if !present[value] {
				c.Lost++
			}
		case refused:
			c.Refused++
		case failed:
			c.Failed++
		default:
			c.Unknown++
		}
	}
	return c
}
