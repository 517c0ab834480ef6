package history

// Open is an op that has been asked for and is not answered yet.
type Open struct {
	recorder *Recorder
	id       uint64
	op       Op
}

// End takes down that the op ended now. Only the first End counts. What was
// learnt meanwhile, such as the token or the version, may be filled in by learnt;
// it may be nil, and it must not touch the recorder.
func (o *Open) End(outcome Outcome, learnt func(*Op)) {
	r := o.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, open := r.open[o]; !open {
		return
	}
	delete(r.open, o)
	o.op.Ended, o.op.Outcome = r.Now(), outcome
	if learnt != nil {
		learnt(&o.op)
	}
	r.ops = append(r.ops, o.op)
	r.tell(Line{ID: o.id, Op: o.op})
}
