package simulate

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/timeline"
)

// text is what a run prints: one round, the figures, the verdict.
func text(report *Report, s cli.Style) (string, error) {
	drawn, err := picture(report, Guarded, s)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.Bold("One lock, two writers, and a pause"))
	fmt.Fprintln(&b, cli.Fill(intro(report), 0))
	fmt.Fprintf(&b, "%s\n\n%s\n", s.Bold("A guarded round as it happened"), drawn)
	fmt.Fprintf(&b, "%s\n\n", cli.Fill(unguardedText(report.Of(Unguarded).first), 0))
	fmt.Fprintf(&b, "%s\n\n%s\n", s.Bold(fmt.Sprintf("All four ways, rounds of each: %d", report.Rounds)), table(report, s))
	heading, why := verdict(report)
	paint := s.Red
	if report.fenced() && report.corrupted() {
		paint = s.Green
	}
	fmt.Fprintf(&b, "%s%s\n%s\n", s.Bold("Verdict: "), paint(heading), cli.Fill(why, 2))
	return b.String(), nil
}

// picture returns the first round of a way as text.
func picture(report *Report, way Way, s cli.Style) (string, error) {
	chart, err := chartOf(report, way)
	paint := map[timeline.Tone]func(string) string{
		timeline.Dim: s.Dim, timeline.Paused: s.Yellow, timeline.Refused: s.Green, timeline.Bad: s.Red, timeline.Broken: s.Red,
	}
	var b strings.Builder
	for _, line := range chart.Lines() {
		text := line.Text
		if colour := paint[line.Tone]; colour != nil {
			text = colour(text)
		}
		b.WriteString(text + "\n")
	}
	return b.String(), err
}

func intro(r *Report) string {
	stopped := "stopped (SIGSTOP)"
	if r.Pause != "SIGSTOP" {
		stopped = "paused (inside the process: this system has no SIGSTOP)"
	}
	return fmt.Sprintf("Two processes add to one account under one lock (ttl %dms): A adds 50, B adds 20. "+
		"A is %s between its read and its write until its lease is over and B has written. "+
		"Then A resumes and writes the value that it computed before the pause.\n"+
		"Lock: %s. Account: %s.\n", r.TTL, stopped, r.Issuer, r.Store)
}

// unguardedText describes the same round without a guard.
func unguardedText(e example) string {
	text := fmt.Sprintf("The same moment unguarded: A's write of %d is accepted, and the balance is %d.",
		opened.balance+amounts["A"], e.balance)
	if len(e.lost) > 0 {
		text += " Acknowledged and gone: " + strings.Join(e.lost, ", ") + "."
	}
	return text
}

// precheck is the table's text for what a writer of each way does before its write.
var precheck = map[Way]string{
	Unguarded:      "has the lock",
	Recheck:        "checks the lease",
	CheckThenWrite: "compares with the mark",
	Guarded:        "compares as it writes",
}

// figures are the table: the headings, and a row for each way.
func figures(report *Report) [][]any {
	rows := [][]any{{"way", "before it writes", "stale writes", "accepted", "refused", "updates lost"}}
	for _, c := range report.Runs {
		rows = append(rows, []any{c.Name, precheck[c.Name], c.StaleAttempted, c.StaleAccepted, c.Refused, c.UpdatesLost})
	}
	return rows
}

// table returns the figures as text. Whole lines are colored, so that the codes do not shift
// the columns.
func table(report *Report, s cli.Style) string {
	text := ""
	for i, row := range figures(report) {
		paint := s.Dim
		if i > 0 {
			paint = s.Red
			if c := report.Runs[i-1]; c.StaleAccepted+c.UpdatesLost == 0 {
				paint = s.Green
			}
		}
		text += paint(fmt.Sprintf("  %-16v  %-25v  %12v  %8v  %7v  %12v", row...)) + "\n"
	}
	return text
}

// verdict returns the verdict, and the figures that it stands on.
func verdict(report *Report) (heading, text string) {
	without, with := report.Of(Unguarded), report.Of(Guarded)
	switch {
	case !report.fenced():
		return "the fence does NOT hold.", fmt.Sprintf("Guarded, %d of %d stale writes accepted, %d updates lost.",
			with.StaleAccepted, with.StaleAttempted, with.UpdatesLost)
	case !report.corrupted():
		return "nothing is shown.", "Without a guard no update was lost, so the rest says nothing about the guard."
	}
	return "the fence holds.", fmt.Sprintf("Acknowledged updates lost with the lock alone: %d. "+
		"A check before the write does not help, because the pause can come between the check and the write. "+
		"Lost after a check of the lease: %d, after a comparison with the mark: %d. "+
		"Guarded, the comparison is part of the write: %d of %d stale writes refused, %d updates lost.",
		without.UpdatesLost, report.Of(Recheck).UpdatesLost, report.Of(CheckThenWrite).UpdatesLost,
		with.Refused, with.StaleAttempted, with.UpdatesLost)
}
