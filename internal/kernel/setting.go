package kernel

// Setting is what is the same for many seeds.
type Setting struct {
	Faults  Faults
	Observe bool    // the unguarded control: everything is judged, nothing refused
	Mutant  *Mutant // nil: the code as it is
}

func (s Setting) laws() *laws {
	l := lawful
	if s.Mutant != nil {
		s.Mutant.change(&l)
	}
	return &l
}
