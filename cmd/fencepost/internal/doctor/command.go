package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/cli"
)

// Cmd is the command fencepost doctor.
type Cmd struct {
	Redis        []string `placeholder:"URL" sep:"none" env:"FENCEPOST_REDIS_URL" help:"Examine this Redis, by the program's URL. Repeatable, for each node. Every user of this machine can read a password in a flag: use the variable instead."`
	Postgres     string   `placeholder:"URL" env:"FENCEPOST_POSTGRES_URL" help:"Examine this PostgreSQL, by the program's URL."`
	MySQL        string   `name:"mysql" placeholder:"DSN" env:"FENCEPOST_MYSQL_DSN" help:"Examine this MySQL or MariaDB, by the program's DSN, as user@tcp(host:3306)/shop. Use the variable for a DSN with a password."`
	Schema       string   `default:"fencepost" placeholder:"NAME" help:"The schema in PostgreSQL (${default})."`
	Prefix       string   `default:"fencepost" placeholder:"PREFIX" help:"The prefix of the keys in Redis (${default})."`
	AllowUnknown bool     `help:"Exit status 0 also if a server hides settings, as managed services do."`
	JSON         bool     `name:"json" help:"Print one JSON object instead."`
}

// Help is printed by --help below the usage line.
func (Cmd) Help() string {
	return `Reads the settings that let numbers fall or locks vanish, and prints a fix for each. It changes nothing.

The exit status is 0 if no check failed (a warning is not a failure), 1 if a check failed or the server hides a setting ` +
		`(see --allow-unknown), and 2 if a server did not answer.

Examples:
  fencepost doctor --redis redis://a:6379 --redis redis://b:6379
  fencepost doctor --postgres postgres://app@db/shop
  FENCEPOST_MYSQL_DSN='app:secret@tcp(db:3306)/shop' fencepost doctor --json`
}

// result has the reports of all servers.
type result struct {
	Servers []*Report       `json:"servers"`
	Counts  map[Verdict]int `json:"counts"`
}

// maxTime bounds the examination of one server.
const maxTime = time.Minute

// Run is called by kong. It prints the reports of the servers that could be examined, and
// returns the errors of the others.
func (c *Cmd) Run(std cli.Streams) error {
	examinations, err := c.examinations()
	if err != nil {
		return err
	}
	ctx, done := cli.UntilSignal(context.Background())
	defer done()
	all, failed := examineAll(ctx, examinations)
	if err := cmp.Or(failed, c.print(std, all)); err != nil {
		return err
	}
	if all.Counts[Fail] > 0 || all.Counts[Unknown] > 0 && !c.AllowUnknown {
		return cli.ErrNo
	}
	return nil
}

func (c *Cmd) print(std cli.Streams, all *result) error {
	if len(all.Servers) == 0 {
		return nil
	}
	return cli.PrintResult(std.Out, c.JSON, all, all.page(cli.NewStyle(std.Out)))
}

// examineAll examines all servers, also after one could not be examined.
func examineAll(ctx context.Context, examinations []examination) (*result, error) {
	all := &result{Counts: map[Verdict]int{}}
	var failed []error
	for _, examine := range examinations {
		report, err := within(ctx, examine)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		all.add(report)
	}
	return all, errors.Join(failed...)
}

func (e *result) add(report *Report) {
	e.Servers = append(e.Servers, report)
	for _, v := range []Verdict{Pass, Warn, Fail, Unknown} {
		e.Counts[v] += report.Count(v)
	}
}

// examination examines one server.
type examination func(ctx context.Context) (*Report, error)

func within(ctx context.Context, examine examination) (*Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, errors.New("not done within "+maxTime.String()))
	defer cancel()
	report, err := examine(ctx)
	return report, connect.WithCause(ctx, err)
}

// examinations parses all URLs before any server is examined.
func (c *Cmd) examinations() (all []examination, err error) {
	for _, url := range c.Redis {
		options, err := connect.RedisOptions(url, "redis")
		if err != nil {
			return nil, err
		}
		all = append(all, Redis{Options: options, Prefix: c.Prefix}.Examine)
	}
	if c.Postgres != "" {
		config, err := connect.PostgresConfig(c.Postgres, "fencepost doctor")
		if err != nil {
			return nil, err
		}
		if config.ConnectTimeout == 0 {
			config.ConnectTimeout = connect.Timeout
		}
		all = append(all, Postgres{Config: config, Schema: c.Schema}.Examine)
	}
	if c.MySQL != "" {
		config, err := connect.MySQLConfig(c.MySQL, "fencepost doctor")
		if err != nil {
			return nil, err
		}
		all = append(all, MySQL{Config: config}.Examine)
	}
	if len(all) == 0 {
		return nil, errors.New("doctor: no server: give --redis=URL, --postgres=URL or --mysql=DSN, " +
			"or set FENCEPOST_REDIS_URL, FENCEPOST_POSTGRES_URL or FENCEPOST_MYSQL_DSN")
	}
	return all, nil
}

// page has a table for each server, and the fixes below it.
func (e *result) page(paint cli.Style) string {
	var b strings.Builder
	for _, report := range e.Servers {
		fmt.Fprintf(&b, "%s\n\n%s\n%s", paint.Bold(cli.Visible(report.Server)), verdicts(report, paint), fixes(report, paint))
	}
	fmt.Fprintf(&b, "%d pass, %d warn, %d fail, %d unknown\n",
		e.Counts[Pass], e.Counts[Warn], e.Counts[Fail], e.Counts[Unknown])
	return b.String()
}

// verdicts has a line for each check. Whole lines are coloured, so that the columns are
// aligned without the codes.
func verdicts(report *Report, paint cli.Style) string {
	rows := make([][]string, len(report.Findings))
	for i, f := range report.Findings {
		rows[i] = []string{string(f.Verdict), f.Check, cli.Visible(f.Evidence)}
	}
	lines := cli.Columns(rows)
	for i, f := range report.Findings {
		lines[i] = colour(f.Verdict, paint)(lines[i])
	}
	return strings.Join(lines, "\n") + "\n"
}

func colour(v Verdict, paint cli.Style) func(string) string {
	switch v {
	case Fail:
		return paint.Red
	case Pass:
		return paint.Green
	}
	return paint.Yellow
}

// fixes has, for each check that did not pass, why it matters, and the fix.
func fixes(report *Report, paint cli.Style) string {
	var b strings.Builder
	for _, f := range report.Findings {
		if f.Verdict == Pass {
			continue
		}
		why := f.Why
		if f.Hazard != "" {
			why += " (" + f.Hazard + ")"
		}
		fmt.Fprintf(&b, "%s\n%s\n", colour(f.Verdict, paint)(fmt.Sprintf("%s: %s", f.Verdict, f.Check)), cli.Fill(why, 2))
		if f.Fix != "" {
			fmt.Fprintf(&b, "  %s %s\n", paint.Bold("fix:"), cli.Visible(f.Fix))
		}
		b.WriteString("\n")
	}
	return b.String()
}
