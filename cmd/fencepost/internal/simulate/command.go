package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/usage"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/rounds"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/timeline"
)

// Cmd is the command fencepost simulate.
type Cmd struct {
	Redis    string        `placeholder:"URL" help:"Use this Redis instead of the embedded one. The run removes its keys at its end."`
	Etcd     string        `placeholder:"URL" help:"Have the lock in this etcd instead: the URLs of its members, separated by commas. The run removes its keys at its end."`
	Postgres string        `placeholder:"URL" help:"Use this PostgreSQL instead of the embedded SQLite. The run has its own schema, and drops it at its end."`
	Rounds   int           `default:"10" help:"The number of rounds of each of the four ways."`
	TTL      time.Duration `name:"ttl" default:"100ms" help:"How long the lock lasts after its holder was stopped."`
	HTML     *string       `name:"html" placeholder:"FILE" help:"Write a page with the verdict, the table, and a picture of one round of each way."`
	JSON     bool          `name:"json" help:"Print one JSON object instead."`

	writer  []string                                       // the command line of a process that runs WriterCmd
	pause   subprocess.Pause                               // how A stops itself
	observe func(way Way, round int, moment rounds.Moment) // is called at each moment of a round
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
  fencepost simulate --etcd http://localhost:2379
  fencepost simulate --redis redis://localhost:6379 --postgres postgres://localhost/test --json`
}

const (
	// minTTL is above the locker's safety margin of 10 ms.
	minTTL = 20 * time.Millisecond
	// maxRounds bounds the memory for the histories of one way.
	maxRounds = 10_000
)

// check returns an error that names the first invalid flag. The URLs are parsed later.
func (c *Cmd) check() error {
	switch {
	case usage.IsEmptyFlag(c.HTML, "FENCEPOST_SIMULATE_HTML"):
		return errors.New("html: the name of the file is empty")
	case c.Redis != "" && c.Etcd != "":
		return errors.New("--redis and --etcd exclude each other: the lock is in one of them")
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("rounds: %d is not between 1 and %d", c.Rounds, maxRounds)
	case c.TTL < minTTL:
		return fmt.Errorf("ttl: %s is less than %s", c.TTL, minTTL)
	case c.TTL%time.Millisecond != 0:
		return fmt.Errorf("ttl: %s is not in whole milliseconds", c.TTL)
	}
	return cli.CheckPage(c.pageFile())
}

// Run is called by kong.
func (c *Cmd) Run(std cli.Streams) error {
	if err := c.check(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot start writers: %w", err)
	}
	ctx, done := cli.UntilSignal(context.Background())
	defer done()
	p := &progress{Line: cli.NewLine(std.Err), rounds: c.Rounds, quiet: c.JSON}
	c.writer, c.pause, c.observe = []string{self, "writer"}, subprocess.BestPause(), p.observe
	report, err := c.report(ctx)
	p.Clear()
	if err != nil {
		return err
	}
	printed, err := text(report, cli.NewStyle(std.Out))
	if err == nil {
		err = cli.PrintResult(std.Out, c.JSON, report, printed)
	}
	if err == nil {
		err = cli.PublishPage(std, c.pageFile(), c.JSON, func() (timeline.Page, error) { return page(report) })
	}
	if err == nil && !(report.fenced() && report.corrupted()) {
		err = cli.ErrNo
	}
	return err
}

// pageFile returns the file of --html, or "" if there is none.
func (c *Cmd) pageFile() string {
	if c.HTML == nil {
		return ""
	}
	return *c.HTML
}

// WriterCmd is the hidden command fencepost writer, the process of one writer.
type WriterCmd struct{}

// Run is called by kong. The terminal sends Ctrl-C to writers too. They ignore it: their
// parent ends them.
func (WriterCmd) Run(std cli.Streams) error {
	signal.Ignore(os.Interrupt)
	return rounds.Serve(subprocess.NewParent(std.In, std.Out), open)
}

// progress prints the progress of a run: on a terminal as one line that is overwritten,
// otherwise as one line for each way that is complete.
type progress struct {
	cli.Line
	rounds int
	quiet  bool
}

func (p *progress) observe(way Way, round int, at rounds.Moment) {
	line := fmt.Sprintf("%s: %d of %d rounds", way, round, p.rounds)
	switch {
	case at != rounds.Ended:
	case p.Drawn:
		p.Put(line)
	case !p.quiet && round == p.rounds:
		fmt.Fprintln(p.Out, line)
	}
}
