package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/lab/dst"
)

// explored returns the text of the report, with the history of the run that broke a rule,
// or of the only run.
func explored(plan dst.Plan, r dst.Report, s cli.Style) (string, error) {
	var parts []string
	if plan.Schedules > 1 {
		parts = append(parts, summary(plan, r, s))
	}
	seed := r.Broken
	if seed == 0 && plan.Schedules == 1 {
		seed = plan.Seed
	}
	if seed == 0 {
		return strings.Join(parts, "\n"), nil
	}
	run, err := new(dst.Player).Play(seed, plan.Setting(false))
	if err != nil {
		return "", err
	}
	parts = append(parts, happened(run, s)...)
	if plan.Schedules > 1 {
		parts = append(parts, fmt.Sprintf("Once more: go run -C lab ./explore --seed %d --schedules 1%s\n", seed, faultsFlag(plan.Faults)))
	}
	return strings.Join(parts, "\n"), nil
}

// happened returns one run: its violations and its whole history.
func happened(run dst.Run, s cli.Style) (parts []string) {
	for _, v := range run.Violations {
		parts = append(parts, s.Red(strings.TrimSuffix(v.String(), "\n"))+"\n")
	}
	if run.Lost > 0 {
		parts = append(parts, s.Red(fmt.Sprintf("lost: %d of what was written, with %d units acknowledged", run.Lost, run.Acknowledged))+"\n")
	}
	heading := s.Bold(fmt.Sprintf("Seed %d, guarded, as it happened", run.Seed))
	return append(parts, heading+"\n\n"+everything(run.History))
}

func summary(plan dst.Plan, r dst.Report, s cli.Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.Bold(fmt.Sprintf("%d schedules, seeds %d to %d", r.Schedules, r.Seed, r.Seed+r.Schedules-1)))
	fmt.Fprintf(&b, "  guarded      %9d acknowledged, %9d lost; rules broken in %s\n", r.Acknowledged, r.Lost, runs(r.Violations))
	if !plan.WithoutControl {
		fmt.Fprintf(&b, "  the control  %31d lost; rules broken in %s\n", r.ControlLost, runs(r.ControlViolations))
	}
	heading, text := "the fence holds.", "No rule was broken; with refusals ignored the same runs went wrong."
	paint := s.Green
	switch {
	case r.Broken != 0:
		heading, text, paint = "the fence does NOT hold.", fmt.Sprintf("The first seed that shows it is %d.", r.Broken), s.Red
	case plan.WithoutControl:
		text = "No rule was broken. Whether anything goes wrong with refusals ignored was not looked at."
	case r.ControlViolations == 0:
		heading, text, paint = "nothing is shown.", "With refusals ignored nothing went wrong either: give it more schedules, or more faults.", s.Red
	}
	fmt.Fprintf(&b, "%s%s\n%s\n", s.Bold("Verdict: "), paint(heading), cli.Fill(text, 2))
	return b.String()
}

func runs(n uint64) string {
	if n == 1 {
		return "1 schedule"
	}
	return fmt.Sprintf("%d schedules", n)
}

// faultsFlag returns the flag for these faults.
func faultsFlag(f dst.Faults) string {
	switch f {
	case dst.All:
		return ""
	case 0:
		return " --faults none"
	}
	return " --faults " + f.String()
}

// everything returns a history as a table, sorted by the beginning of the ops.
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
