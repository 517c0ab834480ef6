package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/guard"
)

const opening = 100

// account is the row that writers add to. It lists the increments it is made
// of, so that a lost one shows, whoever's balance stands.
type account struct {
	id         string
	balance    int64
	increments string // as in "A+50 B+20"
	mark       guard.Mark
}

func increment(writer string, amount int64) string { return fmt.Sprintf("%s+%d", writer, amount) }

// plus returns the row as a writer means to leave it.
func (a account) plus(writer string, amount int64, mark guard.Mark) account {
	a.balance += amount
	a.increments = strings.TrimSpace(a.increments + " " + increment(writer, amount))
	a.mark = mark
	return a
}

func (a account) has(writer string, amount int64) bool {
	return slices.Contains(strings.Fields(a.increments), increment(writer, amount))
}
