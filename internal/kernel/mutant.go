package kernel

import "slices"

// Mutant is a known mistake. A kernel in which it is made must break a rule.
type Mutant struct {
	Name   string
	Place  string // whose mistake it is: lock, holder, guard or service
	change func(*laws)
}

// Mutants returns all of them.
func Mutants() []Mutant {
	return slices.Concat(
		of("lock", lockMutants), of("holder", holderMutants), of("guard", guardMutants), of("service", serviceMutants))
}

type mistake struct {
	name   string
	change func(*laws)
}

func of(place string, mistakes []mistake) []Mutant {
	var all []Mutant
	for _, m := range mistakes {
		all = append(all, Mutant{Name: m.name, Place: place, change: m.change})
	}
	return all
}
