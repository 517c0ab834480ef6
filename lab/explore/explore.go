package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/timeline"
	"github.com/fencepost/fencepost/lab/dst"
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

// Help returns the text of --help above the flags.
func (exploreCmd) Help() string {
	return `A lock, a network, a guard and a few holders are played against each other in simulated time: they are stopped, cut off, ` +
		`killed and promoted, and messages are lost and doubled, as a seed decides. What decides who gets the lock, how long a lease is ` +
		`relied on and who may write is the library's own code. Each run is judged by the rules of package history, and played again with ` +
		`refusals ignored: that control must go wrong, or the rest says nothing. One seed is one run, always.`
}

// schedules is the default number of schedules.
const schedules = 10_000

// heapGrowth makes garbage collections rare: a run is garbage after it was judged, and
// there are thousands per second. It needs about 120 MB.
const heapGrowth = 1600

// Run is called by kong.
func (c *exploreCmd) Run(std cli.Streams) error {
	ctx, done := cli.UntilSignal(context.Background())
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

func (c *exploreCmd) plan() (dst.Plan, error) {
	p := dst.Plan{Seed: c.Seed, Schedules: schedules, Faults: dst.All, WithoutControl: !c.Control}
	if c.Mutants {
		p.Schedules = mutantSchedules
	}
	if c.Schedules != nil {
		p.Schedules = *c.Schedules
	}
	switch {
	case c.Seed == 0:
		return p, errors.New("seed: must be at least 1")
	case p.Schedules == 0 || p.Schedules > math.MaxInt64 || c.Seed > math.MaxInt64:
		return p, errors.New("schedules: must be at least 1, and with the seed below 2^63")
	case c.Mutants && c.HTML != "":
		return p, errors.New("html: not supported with --mutants")
	case slices.Equal(c.Faults, []string{"none"}):
		p.Faults = 0
	case !slices.Equal(c.Faults, []string{"all"}):
		faults, err := dst.ParseFaults(c.Faults)
		if err != nil {
			return p, fmt.Errorf("faults: %w", err)
		}
		p.Faults = faults
	}
	return p, nil
}

func (c *exploreCmd) explore(ctx context.Context, std cli.Streams, plan dst.Plan) error {
	show := newCounter(std.Err, plan.Schedules, c.JSON)
	report, err := dst.Explore(ctx, plan, show.at)
	show.Clear()
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

// holds returns nil if the fence holds. For a single run only the guarded run counts: a
// control without a violation is significant only over many runs.
func holds(plan dst.Plan, r dst.Report) error {
	if r.Broken == 0 && (plan.Schedules == 1 || plan.WithoutControl || r.Proven()) {
		return nil
	}
	return cli.ErrNo
}

func (c *exploreCmd) print(std cli.Streams, plan dst.Plan, report dst.Report) error {
	if c.JSON {
		return json.NewEncoder(std.Out).Encode(report)
	}
	text, err := explored(plan, report, cli.NewStyle(std.Out))
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(std.Out, text)
	return err
}

// counter shows the progress on a terminal. If there is no terminal, it shows nothing.
type counter struct {
	cli.Line
	all, shown uint64
}

func newCounter(out io.Writer, all uint64, quiet bool) *counter {
	return &counter{Line: cli.Line{Out: out, Drawn: cli.Terminal(out) && !quiet}, all: all}
}

// at shows how many schedules are done. It draws at most a hundred times.
func (c *counter) at(done uint64) {
	if c.Drawn && done >= c.shown+c.all/100 {
		c.shown = done
		c.Put(fmt.Sprintf("%d of %d schedules", done, c.all))
	}
}

// draw writes the page of --html: the first guarded run that broke a rule, or else the
// first run whose control did, beside the same run guarded.
func (c *exploreCmd) draw(std cli.Streams, plan dst.Plan, r dst.Report) error {
	return cli.PublishPage(std, c.HTML, c.JSON, func() (timeline.Page, error) { return drawnRun(plan, r) })
}

func drawnRun(plan dst.Plan, r dst.Report) (timeline.Page, error) {
	seed := r.Broken
	if seed == 0 {
		seed = r.ControlBroken
	}
	if seed == 0 && plan.Schedules > 1 {
		return timeline.Page{}, errors.New("html: nothing to draw: no run broke a rule")
	}
	if seed == 0 {
		seed = plan.Seed
	}
	guarded, err := chartOf(seed, plan.Setting(false), "Guarded")
	if err != nil {
		return timeline.Page{}, err
	}
	unguarded, err := chartOf(seed, plan.Setting(true), "The same seed with refusals ignored")
	if err != nil {
		return timeline.Page{}, err
	}
	charts := []timeline.Chart{unguarded, guarded}
	if r.Broken != 0 {
		slices.Reverse(charts)
	}
	return timeline.Page{
		Title:  fmt.Sprintf("Schedule %d", seed),
		Lead:   "A simulated run, as its seed has drawn it.",
		Again:  fmt.Sprintf("go run -C lab ./explore --seed %d --schedules 1%s --html FILE", seed, faultsFlag(plan.Faults)),
		Charts: charts,
	}, nil
}

func chartOf(seed uint64, s dst.Setting, title string) (timeline.Chart, error) {
	run, err := new(dst.Player).Play(seed, s)
	if err != nil {
		return timeline.Chart{}, err
	}
	slices.SortStableFunc(run.Violations, func(a, b history.Violation) int { return cmp.Compare(endOf(a), endOf(b)) })
	return timeline.Chart{Title: title, History: run.History, Violations: run.Violations}, nil
}

// endOf returns the time at which a violation is complete.
func endOf(v history.Violation) time.Duration { return v.Ops[len(v.Ops)-1].Ended }
