package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/usage"
	"github.com/fencepost/fencepost/internal/cli"
)

// Cmd is the command fencepost simulate.
type Cmd struct {
	Redis    string        `placeholder:"URL" help:"Use this Redis instead of the embedded one. The run removes its keys at its end."`
	Postgres string        `placeholder:"URL" help:"Use this PostgreSQL instead of the embedded SQLite. The run has its own schema, and drops it at its end."`
	Rounds   int           `default:"10" help:"The number of rounds of each of the four ways."`
	TTL      time.Duration `name:"ttl" default:"100ms" help:"How long the lock lasts after its holder was stopped."`
	HTML     *string       `name:"html" placeholder:"FILE" help:"Write a page with a picture of one round of each way."`
	JSON     bool          `name:"json" help:"Print one JSON object instead."`
}

// Help is printed by --help below the usage line.
func (Cmd) Help() string {
	return `Two processes, A and B, add to one account under one lock. A reads, and is stopped with SIGSTOP just before its write. Its lease ` +
		`expires. B acquires the lock and writes, and its write is acknowledged. Then A is continued and writes too. The same round runs in ` +
		`four ways: without a guard, with a check of the lock before the write, with a check of the mark before the write, and with a guard.

The exit status is 0 if the guard accepted no stale write and updates were lost without it, and 1 if not.

Examples:
  fencepost simulate
  fencepost simulate --rounds 100 --html picture.html
  fencepost simulate --redis redis://localhost:6379 --postgres postgres://localhost/test --json`
}

// Run is called by kong.
func (c *Cmd) Run(std cli.Streams) error {
	if usage.IsEmptyFlag(c.HTML, "FENCEPOST_SIMULATE_HTML") {
		return errors.New("html: the name of the file is empty")
	}
	if err := cli.CheckPage(c.pageFile()); err != nil {
		return err
	}
	ctx, done := cli.UntilSignal(context.Background())
	defer done()
	options, err := c.options()
	if err != nil {
		return err
	}
	p := newProgress(std.Err, c.Rounds, c.JSON)
	options.Observe = p.observe
	report, err := Run(ctx, options)
	p.Clear()
	if err != nil {
		return err
	}
	if err := c.print(std, report); err != nil {
		return err
	}
	if err := c.writePage(std, report); err != nil {
		return err
	}
	return proven(report)
}

func proven(report *Report) error {
	if !report.Fenced() || !report.Corrupted() {
		return cli.ErrNo
	}
	return nil
}

// options returns the flags as options. [Run] checks them, and its errors have the flags'
// names.
func (c *Cmd) options() (Options, error) {
	self, err := os.Executable()
	if err != nil {
		return Options{}, fmt.Errorf("cannot start writers: %w", err)
	}
	return Options{
		Redis: c.Redis, Postgres: c.Postgres, Rounds: c.Rounds, TTL: c.TTL,
		Writer: []string{self, "writer"},
	}, nil
}

func (c *Cmd) print(std cli.Streams, report *Report) error {
	if c.JSON {
		return json.NewEncoder(std.Out).Encode(report)
	}
	printed, err := text(report, cli.NewStyle(std.Out))
	if err != nil {
		return err
	}
	return cli.Print(std.Out, printed)
}

// WriterCmd is the hidden command fencepost writer, the process of one writer.
type WriterCmd struct{}

// Run is called by kong. The terminal sends Ctrl-C to writers too. They ignore it: their
// parent ends them.
func (WriterCmd) Run(std cli.Streams) error {
	signal.Ignore(os.Interrupt)
	return Serve(context.Background(), std.In, std.Out)
}

// progress prints the progress of a run: on a terminal as one line that is overwritten,
// otherwise as one line for each way that is complete.
type progress struct {
	cli.Line
	rounds int
	quiet  bool
}

func newProgress(out io.Writer, rounds int, quiet bool) *progress {
	return &progress{Line: cli.NewLine(out), rounds: rounds, quiet: quiet}
}

func (p *progress) observe(at Progress) {
	switch {
	case p.Drawn:
		p.drawBar(at)
	case !p.quiet && at.Round == p.rounds && at.Event.Writer == "A" && answered(at.Event):
		fmt.Fprintf(p.Out, "%s: %d of %d rounds\n", at.Way, at.Round, p.rounds)
	}
}

func answered(e Event) bool {
	return e.Kind == Accepted || e.Kind == Refused
}

func (p *progress) drawBar(at Progress) {
	const width = 20
	ways := Ways()
	done, all := slices.Index(ways, at.Way)*p.rounds+at.Round-1, len(ways)*p.rounds
	filled := done * width / all
	line := fmt.Sprintf("%s%s %*d/%d  %-16s  %s", strings.Repeat("█", filled), strings.Repeat("░", width-filled),
		len(fmt.Sprint(all)), done, all, at.Way, activity(at.Event))
	p.Put(line)
}

// activity describes what the writers do after e.
func activity(e Event) string {
	switch {
	case e.Kind == Stopped:
		return "A is stopped"
	case e.Kind == Continued || e.Writer == "A" && answered(e):
		return "A resumes and writes"
	case e.Writer == "A":
		return "A has the lock"
	case e.Kind == Asks:
		return "A stopped, B waits"
	default:
		return "A stopped, B has the lock"
	}
}
