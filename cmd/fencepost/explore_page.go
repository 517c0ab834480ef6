package main

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/internal/kernel"
)

// explored is what many runs come to, in words; and of the run that went wrong,
// or the only one, what happened.
func explored(plan kernel.Plan, r kernel.Report, s style) (string, error) {
	var b strings.Builder
	if plan.Schedules > 1 {
		b.WriteString(summary(r, s))
	}
	seed := r.Broken
	if seed == 0 && plan.Schedules == 1 {
		seed = plan.Seed
	}
	if seed == 0 {
		return b.String(), nil
	}
	run, err := new(kernel.Player).Play(seed, kernel.Setting{Faults: plan.Faults})
	if err != nil {
		return "", err
	}
	for _, v := range run.Violations {
		fmt.Fprintf(&b, "\n%s", s.red(v.String()))
	}
	fmt.Fprintf(&b, "\n%s\n\n%s", s.bold(fmt.Sprintf("Seed %d, guarded, as it happened", seed)), everything(run.History))
	if plan.Schedules > 1 {
		fmt.Fprintf(&b, "\nOnce more: fencepost explore --seed %d --schedules 1%s\n", seed, faultsFlag(plan.Faults))
	}
	return b.String(), nil
}

func summary(r kernel.Report, s style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.bold(fmt.Sprintf("%d schedules, seeds %d to %d", r.Schedules, r.Seed, r.Seed+r.Schedules-1)))
	fmt.Fprintf(&b, "  guarded      %9d acknowledged, %9d lost; rules broken in %d schedules\n", r.Acknowledged, r.Lost, r.Violations)
	fmt.Fprintf(&b, "  the control  %31d lost; rules broken in %d schedules\n", r.ControlLost, r.ControlViolations)
	heading, text := "the fence holds.", "No rule was broken; with refusals ignored the same runs went wrong."
	paint := s.green
	switch {
	case r.Violations+r.Lost > 0:
		heading, text, paint = "the fence does NOT hold.", fmt.Sprintf("The first seed that shows it is %d.", r.Broken), s.red
	case r.ControlViolations == 0:
		heading, text, paint = "nothing is shown.", "With refusals ignored nothing went wrong either: give it more schedules, or more faults.", s.red
	}
	fmt.Fprintf(&b, "%s%s\n%s\n", s.bold("Verdict: "), paint(heading), fill(text, 2))
	return b.String()
}

// faultsFlag is how to ask for these faults again.
func faultsFlag(f kernel.Faults) string {
	switch f {
	case kernel.All:
		return ""
	case 0:
		return " --faults none"
	}
	return " --faults " + f.String()
}
