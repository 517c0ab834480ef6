package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/internal/simulate"
)

type simulateCmd struct {
	Redis    string        `placeholder:"URL" help:"Use this Redis instead of the embedded one. The keys of the run are removed after it."`
	Postgres string        `placeholder:"URL" help:"Use this PostgreSQL instead of the embedded SQLite. The run has a schema of its own, dropped after it."`
	Rounds   int           `default:"10" help:"Rounds of each of the four ways."`
	TTL      time.Duration `name:"ttl" default:"100ms" help:"How long the lock lasts when its holder sleeps."`
	HTML     string        `name:"html" placeholder:"FILE" help:"Write a page with a picture of one round of each way."`
	JSON     bool          `name:"json" help:"Print one JSON object instead."`
}

// Help is what --help says besides the flags.
func (simulateCmd) Help() string {
	return `Two processes add to one account under one lock. A reads and is stopped with SIGSTOP just before its write. Its lease ` +
		`expires, B takes the lock, writes, and is acknowledged. A is continued and writes too. The same round runs unguarded, with a ` +
		`second look at the lock, with a second look at the mark, and guarded.`
}

// Run is called by kong.
func (c *simulateCmd) Run(std streams) error {
	ctx, done := untilSignal(context.Background())
	defer done()
	options, err := c.options()
	if err != nil {
		return err
	}
	p := newProgress(std.err, c.Rounds, c.JSON)
	options.Observe = p.observe
	report, err := simulate.Run(ctx, options)
	p.clear()
	if err != nil {
		return err
	}
	if err := c.print(std, report); err != nil {
		return err
	}
	if err := c.picture(std, report); err != nil {
		return err
	}
	return proven(report)
}

func proven(report *simulate.Report) error {
	if !report.Fenced() || !report.Corrupted() {
		return errNo
	}
	return nil
}

// options are checked by simulate.Run, which names them as the flags do.
func (c *simulateCmd) options() (simulate.Options, error) {
	self, err := os.Executable()
	if err != nil {
		return simulate.Options{}, fmt.Errorf("cannot start writers: %w", err)
	}
	return simulate.Options{
		Redis: c.Redis, Postgres: c.Postgres, Rounds: c.Rounds, TTL: c.TTL,
		Writer: []string{self, "writer"},
	}, nil
}

// print may be killed by a reader that has gone: there is nothing to remove any
// more.
func (c *simulateCmd) print(std streams, report *simulate.Report) error {
	signal.Reset(syscall.SIGPIPE)
	if c.JSON {
		return json.NewEncoder(std.out).Encode(report)
	}
	_, err := fmt.Fprint(std.out, page(report, newStyle(std.out)))
	return err
}
