package main

import (
	"errors"
	"fmt"
	"time"
)

type runCmd struct {
	Redis    string        `env:"FENCEPOST_REDIS_URL" placeholder:"URL" help:"Keep the lock in this Redis. Every user of this machine can read a password that stands in a flag: set the variable instead."`
	Postgres string        `env:"FENCEPOST_POSTGRES_URL" placeholder:"URL" help:"Keep the lock in this PostgreSQL, which has been migrated."`
	Prefix   string        `placeholder:"PREFIX" help:"What the keys in Redis begin with, if not with fencepost."`
	Schema   string        `placeholder:"NAME" help:"The PostgreSQL schema, if it is not called fencepost."`
	TTL      time.Duration `name:"ttl" default:"30s" help:"How long the lock lasts when this machine dies (${default})."`
	Wait     time.Duration `help:"How long to wait for a lock that is held. Without it, not at all."`
	AtLeast  time.Duration `placeholder:"DURATION" help:"Keep the lock this long, although the command ends earlier: the machine whose clock is behind does not run it again."`
	AtMost   time.Duration `placeholder:"DURATION" help:"Stop the command after this long."`
	Grace    time.Duration `placeholder:"DURATION" help:"How long the command may take to end after SIGTERM, before SIGKILL: a fifth of --ttl at most, and without it a tenth."`

	HeldStatus int  `default:"75" placeholder:"N" help:"The exit status where the lock is held by somebody else (${default})."`
	Verbose    bool `short:"v" help:"Say who holds the lock, and when it is acquired and given back."`

	Name    string   `arg:"" help:"What to lock: job/report."`
	Command []string `arg:"" passthrough:"" help:"The program to run under the lock, and its arguments, behind a --."`
}

// Help is what --help says besides the flags.
func (runCmd) Help() string {
	return `Runs a program while it holds a lock: a cron job on three machines runs on one. The program finds its token in FENCING_TOKEN ` +
		`(for the header Fencing-Token), FENCING_RESOURCE, FENCING_NUMBER and FENCING_HOLDER, and is stopped before the lock can pass on. ` +
		`The exit status is the program's; 75: the lock is held; 123: it was lost; 124: --at-most has passed; 125: the lock cannot be ` +
		`had; 126, 127: the program cannot be started, is not there. docs/run.md says what it cannot do.`
}

// Run is called by kong.
func (c *runCmd) Run(std streams) error {
	if err := c.check(); err != nil {
		return c.end(statusFailed, err)
	}
	signals := runSignals()
	waiting, handOver := endedBy(signals)
	store, err := c.open(waiting)
	if err != nil {
		return c.refused(waiting, std, err)
	}
	defer store.leave()
	if c.Wait > 0 {
		c.say(std, "waiting for the lock, for %s at most", c.Wait)
	}
	held, err := c.acquire(waiting, store)
	handOver()
	if err != nil {
		return c.refused(waiting, std, err)
	}
	c.say(std, "%s is held by %s", held.lease.Token(), held.lease.Token().Holder)
	ended := held.work(std, signals)
	held.release(std)
	return ended
}

func (c *runCmd) check() error {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if c.Grace == 0 {
		c.Grace = c.TTL / 10
	}
	switch {
	case errNoGroups != nil:
		return errNoGroups
	case len(c.Command) == 0:
		return errors.New("there is no command")
	case (c.Redis == "") == (c.Postgres == ""):
		return errors.New("give --redis or --postgres, one of them: FENCEPOST_REDIS_URL and FENCEPOST_POSTGRES_URL count too")
	case c.Wait < 0 || c.AtLeast < 0 || c.AtMost < 0 || c.Grace < 0:
		return errors.New("a duration is negative")
	case c.Grace > c.TTL/5:
		return fmt.Errorf("--grace: %s: must be at most a fifth of --ttl, %s", c.Grace, c.TTL/5)
	case c.HeldStatus < 0 || c.HeldStatus > 255:
		return fmt.Errorf("--held-status: %d: must be 0 to 255", c.HeldStatus)
	}
	return nil
}
