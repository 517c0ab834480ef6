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
		of("lock", lockMutants), of("holder", holderMutants), of("guard", guardMutants), of("guard", markMutants), of("service", serviceMutants))
}

// isOf reports whether the mistake is made there. It would not show in a world
// without that place.
func (m *Mutant) isOf(place string) bool { return m != nil && m.Place == place }

// asks is an asker of a mutant's own.
type asks[T any] struct {
	ask func(answer func(T))
	tells[T]
}

func (a *asks[T]) arrive(answer func(T)) { a.ask(answer) }

// tells is a listener of a mutant's own.
type tells[T any] struct {
	told func(T)
	lost func()
}

func (t *tells[T]) hear(answer T) { t.told(answer) }
func (t *tells[T]) miss()         { t.lost() }

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
