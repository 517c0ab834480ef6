package tenure

// HealAtMost is how often one acquisition takes the resource again, after a
// claim has shown that the issuer forgot.
const HealAtMost = 2

// Suspects reports whether a guard that refused number, since its mark is at
// mark, gives reason to ask the issuer what it remembers. A guard that does not
// tell its mark says 0. Where the lease is known to be lost there is no riddle.
func Suspects(number, mark int64, lost bool) bool { return mark >= number && !lost }

// Healed reports whether the issuer, which was asked to raise itself to mark and
// has answered, had forgotten and is now past it. The answer that its memory is
// at mark already is a loss, but for a mark that has this very number from
// another holder: to give it twice is to have forgotten, and the next one is
// above it.
func Healed(number, mark int64, loss bool) bool { return !loss || mark == number }
