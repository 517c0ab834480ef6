package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"

	"github.com/fencepost/fencepost/internal/kernel"
)

type exploreCmd struct {
	Schedules *uint64  `help:"How many runs: 10,000, or 100 for each mutant, if it is not given. With one, everything that happened in it is printed."`
	Seed      uint64   `default:"1" help:"The seed of the first run; the others follow it."`
	Faults    []string `default:"all" placeholder:"NAME,…" help:"What may go wrong: ${faults}; or all, or none."`
	Mutants   bool     `help:"Play known mistakes of locks, guards and holders instead, and say which seed finds each."`
	Control   bool     `default:"true" negatable:"" help:"Play each seed again with refusals ignored, to see that it goes wrong. Long runs can do without."`
	HTML      string   `name:"html" placeholder:"FILE" help:"Write a page with a picture of the first run that went wrong, guarded or in the control."`
	JSON      bool     `name:"json" help:"Print one JSON object instead."`
}

// Help is what --help says besides the flags.
func (exploreCmd) Help() string {
	return `A lock, a network, a guard and a few holders are played against each other in simulated time: they are stopped, cut off, ` +
		`killed and promoted, and messages are lost and doubled, as a seed decides. What decides who gets the lock, how long a lease is ` +
		`relied on and who may write is the library's own code. Each run is judged by the rules of package history, and played again with ` +
		`refusals ignored: that control must go wrong, or the rest says nothing. One seed is one run, always.`
}

// schedules is how many are played where no number is given.
const schedules = 10_000

// heapGrowth lets the collector run seldom: a run is garbage when it has been
// judged, and there are thousands in a second. It takes about 120 MB.
const heapGrowth = 1600

// Run is called by kong.
func (c *exploreCmd) Run(std streams) error {
	ctx, done := untilSignal(context.Background())
	defer done()
	plan, err := c.plan()
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(heapGrowth))
	if c.Mutants {
		return c.mutants(ctx, std, plan)
	}
	return c.explore(ctx, std, plan)
}

func (c *exploreCmd) plan() (kernel.Plan, error) {
	p := kernel.Plan{Seed: c.Seed, Schedules: schedules, Faults: kernel.All, WithoutControl: !c.Control}
	if c.Mutants {
		p.Schedules = mutantSchedules
	}
	if c.Schedules != nil {
		p.Schedules = *c.Schedules
	}
	switch {
	case c.Seed == 0:
		return p, errors.New("seed: seeds are from 1 on")
	case p.Schedules == 0 || p.Schedules > math.MaxInt64 || c.Seed > math.MaxInt64:
		return p, errors.New("schedules: at least 1 is needed, and they and the seed must be below 2^63")
	case c.Mutants && c.HTML != "":
		return p, errors.New("html: a mutant is not drawn")
	case slices.Equal(c.Faults, []string{"none"}):
		p.Faults = 0
	case !slices.Equal(c.Faults, []string{"all"}):
		faults, err := kernel.ParseFaults(c.Faults)
		if err != nil {
			return p, fmt.Errorf("faults: %w", err)
		}
		p.Faults = faults
	}
	return p, nil
}

func (c *exploreCmd) explore(ctx context.Context, std streams, plan kernel.Plan) error {
	show := newCounter(std.err, plan.Schedules, c.JSON)
	report, err := kernel.Explore(ctx, plan, show.at)
	show.clear()
	if err != nil {
		return err
	}
	if err := c.print(std, plan, report); err != nil {
		return err
	}
	if err := c.draw(std, plan, report); err != nil {
		return err
	}
	return holds(plan, report)
}

// holds is the answer. Of a single run it is that of the guarded one: a control
// in which nothing went wrong says something of many runs, and nothing of one.
func holds(plan kernel.Plan, r kernel.Report) error {
	if r.Broken == 0 && (plan.Schedules == 1 || plan.WithoutControl || r.Proven()) {
		return nil
	}
	return errNo
}

func (c *exploreCmd) print(std streams, plan kernel.Plan, report kernel.Report) error {
	if c.JSON {
		return json.NewEncoder(std.out).Encode(report)
	}
	text, err := explored(plan, report, newStyle(std.out))
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(std.out, text)
	return err
}
