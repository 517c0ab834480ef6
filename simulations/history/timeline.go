package history

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// shown is how many ops a time line has at most; those in the middle are left
// out.
const shown = 24

// timeline draws ops, which are in the order of Began, in milliseconds since
// the first.
func timeline(w io.Writer, ops []Op) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, "  "+strings.Join(cells, "\t")) }
	row("   from ms", "     to ms", "who", "what", "token", "outcome")
	for i, op := range ops {
		if left := len(ops) - shown; left > 0 && i >= shown/2 && i < shown/2+left {
			if i == shown/2 {
				row("       ...", "       ...", "", fmt.Sprintf("%d more", left))
			}
			continue
		}
		row(millis(op.Began-ops[0].Began), millis(op.Ended-ops[0].Began),
			op.Writer, cmp.Or(op.Note, string(op.Kind)), who(&op), outcome(&op, ops[0].Began))
	}
	table.Flush()
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%10.3f", float64(d)/float64(time.Millisecond))
}

// who names the token of op.
func who(op *Op) string {
	if op.Number == 0 {
		return cmp.Or(op.Holder, "-")
	}
	return fmt.Sprintf("#%d %s", op.Number, op.Holder)
}

// outcome is what became of op, with what it saw or made.
func outcome(op *Op, first time.Duration) string {
	text := string(op.Outcome)
	if op.Kind == Read || op.Traced {
		text += fmt.Sprintf(", counted %d", op.Counted)
	}
	if op.Seen > 0 {
		text += fmt.Sprintf(", read version %d", op.Seen)
	}
	if op.Made > 0 {
		text += fmt.Sprintf(", made version %d", op.Made)
	}
	if op.Until > 0 && op.Outcome == Accepted {
		text += fmt.Sprintf(", until %s", strings.TrimSpace(millis(op.Until-first)))
	}
	return text
}
