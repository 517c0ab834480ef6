package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// everything lists a history, in the order in which its ops began.
func everything(h history.History) string {
	ops := slices.Clone(h.Ops)
	slices.SortStableFunc(ops, func(a, b history.Op) int { return cmp.Compare(a.Began, b.Began) })
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "from ms\tto ms\twho\tresource\twhat\ttoken\toutcome")
	for _, op := range ops {
		fmt.Fprintf(w, "%.3f\t%.3f\t%s\t%s\t%s\t%s\t%s\n", ms(op.Began), ms(op.Ended), op.Writer, op.Resource,
			cmp.Or(op.Note, string(op.Kind)), tokenOf(op), details(op))
	}
	w.Flush()
	return b.String()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func tokenOf(op history.Op) string {
	if op.Number == 0 {
		return cmp.Or(op.Holder, "-")
	}
	return fmt.Sprintf("#%d %s", op.Number, op.Holder)
}

func details(op history.Op) string {
	text := string(op.Outcome)
	if op.Kind == history.Fault {
		text = "fault"
	}
	if op.Until > 0 {
		text += fmt.Sprintf(", until %.3f", ms(op.Until))
	}
	if op.Made > 0 {
		text += fmt.Sprintf(", read version %d, made version %d", op.Seen, op.Made)
	}
	if op.Kind == history.Read {
		text += fmt.Sprintf(", counted %d", op.Counted)
	}
	return text
}
