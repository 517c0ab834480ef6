package process_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/simulations/process"
)

// table is what `make rounds` is for: the figures of all rounds, for the docs.
type table struct {
	mu   sync.Mutex
	rows []string
}

func (t *table) add(r process.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, fmt.Sprintf("| %s | %s | %d | %d | %d | %d | %d | %d | %.0f s |",
		r.Pause, r.Subject, r.Rounds, r.Guarded.Attempted, r.Guarded.Accepted,
		r.Twin.Attempted, r.Twin.Accepted, r.Twin.Lost, (r.Guarded.Took+r.Twin.Took).Seconds()))
}

func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.rows)
	return "\n| pause | resource | rounds | stale writes, guarded | accepted | stale writes, twin | accepted | updates lost | time |\n" +
		"|---|---|--:|--:|--:|--:|--:|--:|--:|\n" + strings.Join(t.rows, "\n")
}
