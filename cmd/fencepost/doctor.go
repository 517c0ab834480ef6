package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/doctor"
)

type doctorCmd struct {
	Redis        []string `placeholder:"URL" sep:"none" env:"FENCEPOST_REDIS_URL" help:"Examine this Redis. It may be given again, for each node. Every user of this machine can read a password that stands in a flag: set the variable instead."`
	Postgres     string   `placeholder:"URL" env:"FENCEPOST_POSTGRES_URL" help:"Examine this PostgreSQL, best with the URL that the program has."`
	Schema       string   `default:"fencepost" placeholder:"NAME" help:"The schema, if it is not called fencepost."`
	Prefix       string   `default:"fencepost" placeholder:"PREFIX" help:"What the keys in Redis begin with, if not with fencepost."`
	AllowUnknown bool     `help:"Exit status 0 also where a server does not tell everything, as managed ones do not."`
	JSON         bool     `name:"json" help:"Print one JSON object instead."`
}

// Help is what --help says besides the flags.
func (doctorCmd) Help() string {
	return `Asks the servers for every setting that lets numbers fall or locks vanish, and says what to do about it. It only reads. ` +
		`Exit status 0: nothing of the kind (warnings are bounds to know of); 1: a check failed, or the server does not tell (see --allow-unknown); ` +
		`2: a server cannot be asked at all.`
}

// examined is what all servers were found to be.
type examined struct {
	Servers []*doctor.Report       `json:"servers"`
	Counts  map[doctor.Verdict]int `json:"counts"`
}

// longest bounds the examination of one server.
const longest = time.Minute

// Run is called by kong. What could be examined is told also where another
// server could not.
func (c *doctorCmd) Run(std streams) error {
	patients, err := c.patients()
	if err != nil {
		return err
	}
	ctx, done := untilSignal(context.Background())
	defer done()
	all, failed := examineAll(ctx, patients)
	if err := errors.Join(failed, c.print(std, all)); err != nil {
		return err
	}
	if all.Counts[doctor.Fail] > 0 || all.Counts[doctor.Unknown] > 0 && !c.AllowUnknown {
		return errNo
	}
	return nil
}

func (c *doctorCmd) print(std streams, all *examined) error {
	if len(all.Servers) == 0 {
		return nil
	}
	if !c.JSON {
		return show(std.out, all.page(newStyle(std.out)))
	}
	text, err := line(all)
	if err != nil {
		return err
	}
	return show(std.out, text)
}

// examineAll goes on where a server cannot be asked.
func examineAll(ctx context.Context, patients []examination) (*examined, error) {
	all := &examined{Counts: map[doctor.Verdict]int{}}
	var failed []error
	for _, examine := range patients {
		report, err := within(ctx, examine)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		all.add(report)
	}
	return all, errors.Join(failed...)
}

func (e *examined) add(report *doctor.Report) {
	e.Servers = append(e.Servers, report)
	for _, v := range []doctor.Verdict{doctor.Pass, doctor.Warn, doctor.Fail, doctor.Unknown} {
		e.Counts[v] += report.Count(v)
	}
}

// examination asks one server.
type examination func(ctx context.Context) (*doctor.Report, error)

func within(ctx context.Context, examine examination) (*doctor.Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, errors.New("not done within "+longest.String()))
	defer cancel()
	report, err := examine(ctx)
	return report, becauseOf(ctx, err)
}

// patients reads the URLs before any server is asked.
func (c *doctorCmd) patients() (all []examination, err error) {
	for _, url := range c.Redis {
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, unreadable("redis: not a redis:// URL")
		}
		all = append(all, doctor.Redis{Options: options, Prefix: c.Prefix}.Examine)
	}
	if c.Postgres != "" {
		config, err := postgresConfig(c.Postgres, "fencepost doctor")
		if err != nil {
			return nil, err
		}
		if config.ConnectTimeout == 0 {
			config.ConnectTimeout = reach
		}
		all = append(all, doctor.Postgres{Config: config, Schema: c.Schema}.Examine)
	}
	if len(all) == 0 {
		return nil, errors.New("doctor: no server: give --redis=URL or --postgres=URL, or set FENCEPOST_REDIS_URL or FENCEPOST_POSTGRES_URL")
	}
	return all, nil
}
