package lockset

// Count is what was counted in one way.
type Count struct {
	Way          Way
	Begun        int // Acknowledged + Refused + Failed + Unknown
	Acknowledged int
	Lost         int // acknowledged, and not in the set
	Refused      int // as stale: by the fence, or by the check
	Failed       int // not written for another reason: left with its lease, evicted
	Unknown      int // sent, and not answered
	Ghosts       int // in the set, although refused, failed, never begun, or there already
}

func (c Count) plus(d Count) Count {
	return Count{
		Way: c.Way, Begun: c.Begun + d.Begun, Acknowledged: c.Acknowledged + d.Acknowledged,
		Lost: c.Lost + d.Lost, Refused: c.Refused + d.Refused, Failed: c.Failed + d.Failed,
		Unknown: c.Unknown + d.Unknown, Ghosts: c.Ghosts + d.Ghosts,
	}
}

// LostPercent is of the acknowledged; 0 where there are none.
func (c Count) LostPercent() float64 {
	if c.Acknowledged == 0 {
		return 0
	}
	return 100 * float64(c.Lost) / float64(c.Acknowledged)
}
