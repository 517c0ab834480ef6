package acknowledged_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

// count is what came of a cell.
type count struct {
	cell
	acknowledged, refused, failed, unknown int

	late int // of the unknown, those that were applied
	lost int // acknowledged or applied, and not in the value
}

// count goes through what was said and what the database remembers of the
// cell's rows. It ends the test where these do not fit together.
func (r *run) count(c cell, units map[string][]history.Op) count {
	r.Helper()
	sum := count{cell: c}
	for _, key := range c.keys() {
		l, err := read(r.Context(), r.pool, r.schema, key)
		require.NoError(r, err)
		acknowledged, applied := 0, 0
		for _, unit := range units[resource(key)] {
			times := l.times[unit.Note]
			delete(l.times, unit.Note)
			applied += times
			switch unit.Outcome {
			case history.Accepted:
				acknowledged++
				require.Equal(r, 1, times, "%s: %s was acknowledged", key, unit.Note)
			case history.Refused:
				sum.refused++
				require.Zero(r, times, "%s: %s was refused", key, unit.Note)
			case history.Failed:
				sum.failed++
				require.Zero(r, times, "%s: %s failed", key, unit.Note)
			default:
				sum.unknown++
				sum.late += times
				require.LessOrEqual(r, times, 1, "%s: %s was applied again", key, unit.Note)
			}
		}
		require.Empty(r, l.times, "%s: nobody has written this", key)
		require.Equal(r, r.heard[key], acknowledged, "%s: what this process has heard, and what the history says", key)
		sum.acknowledged += acknowledged
		sum.lost += applied - l.value
	}
	return sum
}

func (c count) String() string {
	return fmt.Sprintf("| `%s` | `%s` | %d | %d | %d | %d | %d | %d |",
		c.Way, c.Issuer, c.acknowledged, c.refused, c.failed, c.unknown, c.late, c.lost)
}

// table is all of them, in Markdown.
func table(all []count) string {
	var b strings.Builder
	b.WriteString("| way | issuer | acknowledged | refused | failed | unknown | of these applied | lost |\n|---|---|--:|--:|--:|--:|--:|--:|\n")
	sum := count{cell: cell{Way: "in all", Issuer: "–"}}
	for _, c := range all {
		fmt.Fprintln(&b, c)
		sum.acknowledged += c.acknowledged
		sum.refused += c.refused
		sum.failed += c.failed
		sum.unknown += c.unknown
		sum.late += c.late
		sum.lost += c.lost
	}
	fmt.Fprintln(&b, strings.NewReplacer("`", "").Replace(sum.String()))
	return b.String()
}
