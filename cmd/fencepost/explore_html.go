package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/internal/kernel"
	"github.com/fencepost/fencepost/internal/picture"
	"github.com/fencepost/fencepost/simulations/history"
)

// draw writes the page that --html asks for: of the first run that broke a rule,
// or else of the first in which the control did, beside the same run guarded.
func (c *exploreCmd) draw(std streams, plan kernel.Plan, r kernel.Report) error {
	return publish(std, c.HTML, c.JSON, func() (picture.Page, error) { return drawnRun(plan, r) })
}

func drawnRun(plan kernel.Plan, r kernel.Report) (picture.Page, error) {
	seed := r.Broken
	if seed == 0 {
		seed = r.ControlBroken
	}
	if seed == 0 && plan.Schedules > 1 {
		return picture.Page{}, errors.New("html: there is nothing to draw: no run went wrong")
	}
	if seed == 0 {
		seed = plan.Seed
	}
	guarded, err := sceneOf(seed, plan.Setting(false), "Guarded")
	if err != nil {
		return picture.Page{}, err
	}
	unguarded, err := sceneOf(seed, plan.Setting(true), "The same seed with refusals ignored")
	if err != nil {
		return picture.Page{}, err
	}
	scenes := []picture.Scene{unguarded, guarded}
	if r.Broken != 0 {
		slices.Reverse(scenes)
	}
	return picture.Page{
		Title:  fmt.Sprintf("Schedule %d", seed),
		Lead:   "A simulated run, as its seed has drawn it. The lines of the table under each picture are in the order in which they began.",
		Again:  fmt.Sprintf("fencepost explore --seed %d --schedules 1%s --html FILE", seed, faultsFlag(plan.Faults)),
		Scenes: scenes,
	}, nil
}

func sceneOf(seed uint64, s kernel.Setting, title string) (picture.Scene, error) {
	run, err := new(kernel.Player).Play(seed, s)
	if err != nil {
		return picture.Scene{}, err
	}
	slices.SortStableFunc(run.Violations, func(a, b history.Violation) int { return cmp.Compare(endOf(a), endOf(b)) })
	return picture.Scene{Title: title, History: run.History, Violations: run.Violations}, nil
}

// endOf is when a violation is there to see.
func endOf(v history.Violation) time.Duration { return v.Ops[len(v.Ops)-1].Ended }
