package main

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/internal/kernel"
)

// explored is what many runs come to, in words; and of the run that went wrong,
// or the only one, what happened.
func explored(plan kernel.Plan, r kernel.Report, s style) (string, error) {
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
	run, err := new(kernel.Player).Play(seed, plan.Setting(false))
	if err != nil {
		return "", err
	}
	parts = append(parts, happened(run, s)...)
	if plan.Schedules > 1 {
		parts = append(parts, fmt.Sprintf("Once more: fencepost explore --seed %d --schedules 1%s\n", seed, faultsFlag(plan.Faults)))
	}
	return strings.Join(parts, "\n"), nil
}

// happened is one run: what is wrong with it, and all of it.
func happened(run kernel.Run, s style) (parts []string) {
	for _, v := range run.Violations {
		parts = append(parts, s.red(strings.TrimSuffix(v.String(), "\n"))+"\n")
	}
	if run.Lost > 0 {
		parts = append(parts, s.red(fmt.Sprintf("lost: %d of what was written, with %d units acknowledged", run.Lost, run.Acknowledged))+"\n")
	}
	heading := s.bold(fmt.Sprintf("Seed %d, guarded, as it happened", run.Seed))
	return append(parts, heading+"\n\n"+everything(run.History))
}

func summary(plan kernel.Plan, r kernel.Report, s style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.bold(fmt.Sprintf("%d schedules, seeds %d to %d", r.Schedules, r.Seed, r.Seed+r.Schedules-1)))
	fmt.Fprintf(&b, "  guarded      %9d acknowledged, %9d lost; rules broken in %s\n", r.Acknowledged, r.Lost, runs(r.Violations))
	if !plan.WithoutControl {
		fmt.Fprintf(&b, "  the control  %31d lost; rules broken in %s\n", r.ControlLost, runs(r.ControlViolations))
	}
	heading, text := "the fence holds.", "No rule was broken; with refusals ignored the same runs went wrong."
	paint := s.green
	switch {
	case r.Broken != 0:
		heading, text, paint = "the fence does NOT hold.", fmt.Sprintf("The first seed that shows it is %d.", r.Broken), s.red
	case plan.WithoutControl:
		text = "No rule was broken. Whether anything goes wrong with refusals ignored was not looked at."
	case r.ControlViolations == 0:
		heading, text, paint = "nothing is shown.", "With refusals ignored nothing went wrong either: give it more schedules, or more faults.", s.red
	}
	fmt.Fprintf(&b, "%s%s\n%s\n", s.bold("Verdict: "), paint(heading), fill(text, 2))
	return b.String()
}

func runs(n uint64) string {
	if n == 1 {
		return "1 schedule"
	}
	return fmt.Sprintf("%d schedules", n)
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
