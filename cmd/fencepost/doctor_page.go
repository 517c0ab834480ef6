package main

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/internal/doctor"
)

// page has a table for each server, and what to do under it.
func (e *examined) page(paint style) string {
	var b strings.Builder
	for _, report := range e.Servers {
		fmt.Fprintf(&b, "%s\n\n%s\n%s", paint.bold(visible(report.Server)), verdicts(report, paint), cures(report, paint))
	}
	fmt.Fprintf(&b, "%d pass, %d warn, %d fail, %d unknown\n",
		e.Counts[doctor.Pass], e.Counts[doctor.Warn], e.Counts[doctor.Fail], e.Counts[doctor.Unknown])
	return b.String()
}

// verdicts is one line for each check. Lines are coloured whole, so that the
// columns are measured without the codes.
func verdicts(report *doctor.Report, paint style) string {
	rows := make([][]string, len(report.Findings))
	for i, f := range report.Findings {
		rows[i] = []string{string(f.Verdict), f.Check, visible(f.Evidence)}
	}
	lines := columns(rows)
	for i, f := range report.Findings {
		lines[i] = tint(f.Verdict, paint)(lines[i])
	}
	return strings.Join(lines, "\n") + "\n"
}

func tint(v doctor.Verdict, paint style) func(string) string {
	switch v {
	case doctor.Fail:
		return paint.red
	case doctor.Pass:
		return paint.green
	}
	return paint.yellow
}

// cures says of what did not pass why it matters, and the fix.
func cures(report *doctor.Report, paint style) string {
	var b strings.Builder
	for _, f := range report.Findings {
		if f.Verdict == doctor.Pass {
			continue
		}
		why := f.Why
		if f.Hazard != "" {
			why += " (" + f.Hazard + ")"
		}
		fmt.Fprintf(&b, "%s\n%s\n", tint(f.Verdict, paint)(fmt.Sprintf("%s: %s", f.Verdict, f.Check)), fill(why, 2))
		if f.Fix != "" {
			fmt.Fprintf(&b, "  %s %s\n", paint.bold("fix:"), visible(f.Fix))
		}
		b.WriteString("\n")
	}
	return b.String()
}
