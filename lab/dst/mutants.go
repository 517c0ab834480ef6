package dst

import (
	"slices"
)

// Mutant is a known mistake. A run with this mistake must break a rule.
type Mutant struct {
	Name   string
	Place  string // where the mistake is: lock, holder, guard or service
	change func(*decisions)
}

// Mutants returns all mutants.
func Mutants() []Mutant {
	return slices.Concat(
		of("lock", lockMutants), of("holder", holderMutants), of("guard", guardMutants), of("guard", markMutants), of("service", serviceMutants))
}

// isOf reports whether the mistake is made at that place. A run without that place would
// not show it.
func (m *Mutant) isOf(place string) bool { return m != nil && m.Place == place }

type mistake struct {
	name   string
	change func(*decisions)
}

func of(place string, mistakes []mistake) []Mutant {
	var all []Mutant
	for _, m := range mistakes {
		all = append(all, Mutant{Name: m.name, Place: place, change: m.change})
	}
	return all
}
