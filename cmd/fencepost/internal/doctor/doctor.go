// Package doctor is the command fencepost doctor. It asks a Redis, a PostgreSQL or an etcd for
// what lets numbers fall or locks vanish, and reports its answers with the fix.
//
// It changes nothing. If a managed service hides a setting, or the role lacks a right, the
// verdict is [Unknown], never [Pass]. If a server does not answer, Examine returns an error.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/cli"
)

// Cmd is the command fencepost doctor.
type Cmd struct {
	Redis        []string `server:"all" placeholder:"URL" sep:"none" env:"FENCEPOST_REDIS_URL" help:"Examine this Redis, by the program's URL. Repeatable, for each node. Every user of this machine can read a password in a flag: use the variable instead."`
	Postgres     string   `server:"all" placeholder:"URL" env:"FENCEPOST_POSTGRES_URL" help:"Examine this PostgreSQL, by the program's URL."`
	Etcd         string   `server:"all" placeholder:"URL" env:"FENCEPOST_ETCD_URL" help:"Examine this etcd, by the program's URLs, separated by commas, of which the first may have a user and a password."`
	Schema       string   `default:"fencepost" placeholder:"NAME" help:"The schema in PostgreSQL (${default})."`
	Prefix       string   `default:"fencepost" placeholder:"PREFIX" help:"The prefix of the keys in Redis or etcd (${default})."`
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
  FENCEPOST_POSTGRES_URL=postgres://app:secret@db/shop fencepost doctor --json`
}

// result has the reports of all servers that could be examined.
type result struct {
	Servers []*Report       `json:"servers"`
	Counts  map[Verdict]int `json:"counts"`
}

// Run is called by kong. It prints the reports of the servers that could be examined, and
// returns the errors of the others.
func (c *Cmd) Run(std cli.Streams) error {
	examinations, err := c.examinations()
	if err != nil {
		return err
	}
	ctx, done := cli.UntilSignal(context.Background())
	defer done()
	all := &result{Counts: map[Verdict]int{Pass: 0, Warn: 0, Fail: 0, Unknown: 0}}
	var failed []error
	for _, examine := range examinations {
		ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not done within a minute"))
		report, err := examine(ctx)
		if err != nil {
			failed = append(failed, connect.WithCause(ctx, err))
		} else {
			all.Servers = append(all.Servers, report)
			for _, f := range report.Findings {
				all.Counts[f.Verdict]++
			}
		}
		cancel()
	}
	if len(all.Servers) > 0 {
		failed = append(failed, cli.PrintResult(std.Out, c.JSON, all, all.page(cli.NewStyle(std.Out))))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if all.Counts[Fail] > 0 || all.Counts[Unknown] > 0 && !c.AllowUnknown {
		return cli.ErrNo
	}
	return nil
}

// examinations parses all URLs before any server is examined.
func (c *Cmd) examinations() (all []func(ctx context.Context) (*Report, error), err error) {
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
		config.ConnectTimeout = cmp.Or(config.ConnectTimeout, connect.Timeout)
		all = append(all, Postgres{Config: config, Schema: c.Schema}.Examine)
	}
	if c.Etcd != "" {
		etcd, err := connect.NewEtcd(c.Etcd, c.Prefix)
		if err != nil {
			return nil, err
		}
		all = append(all, Etcd{Etcd: etcd}.Examine)
	}
	return all, nil
}

// page has a table for each server. Below it is, for each check that did not pass, why it
// matters, and the fix. Whole lines of the table are coloured: codes would count as width.
func (e *result) page(style cli.Style) string {
	paint := map[Verdict]func(string) string{Pass: style.Green, Warn: style.Yellow, Fail: style.Red, Unknown: style.Yellow}
	var page strings.Builder
	for _, report := range e.Servers {
		rows, fixes := make([][]string, len(report.Findings)), ""
		for i, f := range report.Findings {
			rows[i] = []string{string(f.Verdict), f.Check, cli.Visible(f.Evidence)}
			if why := f.Why; f.Verdict != Pass {
				if f.Hazard != "" {
					why += " (" + f.Hazard + ")"
				}
				fixes += fmt.Sprintf("%s\n%s\n  fix: %s\n\n", paint[f.Verdict](string(f.Verdict)+": "+f.Check), cli.Fill(why, 2), cli.Visible(f.Fix))
			}
		}
		lines := cli.Columns(rows)
		for i, f := range report.Findings {
			lines[i] = paint[f.Verdict](lines[i])
		}
		fmt.Fprintf(&page, "%s\n\n%s\n\n%s", style.Bold(cli.Visible(report.Server)), strings.Join(lines, "\n"), fixes)
	}
	fmt.Fprintf(&page, "%d pass, %d warn, %d fail, %d unknown\n", e.Counts[Pass], e.Counts[Warn], e.Counts[Fail], e.Counts[Unknown])
	return page.String()
}

// check examines one thing of a server.
type check struct {
	name, hazard, why string
	look              func(ctx context.Context) (answer, error)
}

// answer is what a check saw. The fix is empty if nothing is wrong.
type answer struct {
	verdict       Verdict
	evidence, fix string
}

// rule is one way in which something is wrong. The note is put behind the evidence.
type rule struct {
	applies   bool
	verdict   Verdict
	note, fix string
}

// judge applies the first rule that applies, and passes if there is none.
func judge(evidence string, rules ...rule) (answer, error) {
	for _, r := range rules {
		if r.applies {
			return answer{r.verdict, evidence + r.note, r.fix}, nil
		}
	}
	return answer{Pass, evidence, ""}, nil
}

// Verdict is the result of one check.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "pass"    // as it should be
	Warn    Verdict = "warn"    // it works within a bound
	Fail    Verdict = "fail"    // numbers can fall, or locks vanish
	Unknown Verdict = "unknown" // the server hides the setting
)

// Finding is one check of one server.
type Finding struct {
	Check    string  `json:"check"`
	Verdict  Verdict `json:"verdict"`
	Evidence string  `json:"evidence"`         // the server's answer, or why there is none
	Why      string  `json:"why"`              // what depends on it
	Hazard   string  `json:"hazard,omitempty"` // its id in docs/hazards.md
	Fix      string  `json:"fix,omitempty"`    // a statement or a setting; empty if nothing is wrong
}

// Report has the findings of one server.
type Report struct {
	Server   string    `json:"server"` // without a password
	Findings []Finding `json:"findings"`
}

// examine makes the checks. hidden is the fix if the server hides what a check needs. An
// error that the server returns is a finding; any other ends the examination.
func (r *Report) examine(ctx context.Context, hidden string, checks []check) (*Report, error) {
	for _, c := range checks {
		saw, err := c.look(ctx)
		if err != nil {
			if !isServerError(err) {
				return nil, fmt.Errorf("%s: %s: %w", r.Server, c.name, err)
			}
			saw = answer{Unknown, err.Error(), hidden}
		}
		r.Findings = append(r.Findings, Finding{c.name, saw.verdict, saw.evidence, c.why, c.hazard, saw.fix})
	}
	return r, nil
}

// errMissing is an answer without the value that a check needs.
var errMissing = errors.New("the server's answer has no")

// isServerError reports whether the server has returned err.
func isServerError(err error) bool {
	var ofRedis redis.Error
	var ofPostgres *pgconn.PgError
	var ofEtcd connect.EtcdError
	if errors.As(err, &ofPostgres) {
		return ofPostgres.Severity != "FATAL"
	}
	return errors.Is(err, errMissing) || errors.As(err, &ofRedis) || errors.As(err, &ofEtcd)
}

const clockWhy = "Numbers start at the server's clock: after a failover to a server that is behind, or a move to one, new tokens are refused until it has caught up."

// clock reads the server's clock, which it rounds down to the unit, several times. The server
// reads it between the request and the answer, so the shortest round trip has the narrowest
// range of the difference.
func clock(ctx context.Context, unit time.Duration, read func(ctx context.Context) (time.Time, error)) (answer, error) {
	var least, most time.Duration // how far the server's clock is ahead of this machine's
	for i := range 8 {
		before := time.Now()
		there, err := read(ctx)
		after := time.Now()
		if err != nil {
			return answer{}, err
		}
		if i == 0 || unit+after.Sub(before) < most-least {
			least, most = there.Sub(after), there.Add(unit).Sub(before)
		}
	}
	return judgeClock(least, most)
}

func judgeClock(least, most time.Duration) (answer, error) {
	evidence := fmt.Sprintf("ahead of this machine's by %s to %s", least.Round(10*time.Microsecond), most.Round(10*time.Microsecond))
	const fix = "synchronize the clocks (chrony, NTP) of the servers and of this machine: either may be wrong"
	away := max(least, -most)
	return judge(evidence, rule{away > time.Minute, Fail, "", fix}, rule{away > time.Second, Warn, "", fix},
		rule{most-least > 2*time.Second, Unknown, ": the network is too slow for a result", "run the doctor on a machine nearer to the server"})
}
