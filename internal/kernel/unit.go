package kernel

// unit is a unit of work as the store remembers it.
type unit struct {
	applied    int
	seen, made int64 // versions, of the first time
	writes     []op  // the attempts that were applied
	resource   int
	op         op
}

func (u *unit) reply() reply { return reply{seen: u.seen, made: u.made, by: u.writes[0]} }
