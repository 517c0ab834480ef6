package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
)

// check examines one thing of a server of type S.
type check[S any] struct {
	name, hazard, why string
	look              func(ctx context.Context, server S) (answer, error)
}

// answer is what a check saw.
type answer struct {
	verdict       Verdict
	evidence, fix string
}

func pass(evidence string) (answer, error) {
	return answer{verdict: Pass, evidence: evidence}, nil
}

func warn(evidence, fix string) (answer, error) {
	return answer{verdict: Warn, evidence: evidence, fix: fix}, nil
}

func fail(evidence, fix string) (answer, error) {
	return answer{verdict: Fail, evidence: evidence, fix: fix}, nil
}

func unknown(reason, fix string) (answer, error) {
	return answer{verdict: Unknown, evidence: reason, fix: fix}, nil
}

// judged returns the look function of a check that needs only settings. judge gets their
// values in the order of names, and the text that shows them.
func judged[S any](read func(server S, ctx context.Context, names ...string) ([]string, string, error),
	judge func(evidence string, values []string) (answer, error), names ...string) func(context.Context, S) (answer, error) {
	return func(ctx context.Context, server S) (answer, error) {
		values, evidence, err := read(server, ctx, names...)
		if err != nil {
			return answer{}, err
		}
		return judge(evidence, values)
	}
}

// examine runs all checks. hidden is the fix if the server hides what a check needs. An
// error that the server returns is a finding. If the server does not answer, examine
// returns an error.
func examine[S any](ctx context.Context, server S, hidden string, checks []check[S]) ([]Finding, error) {
	var findings []Finding
	for _, c := range checks {
		saw, err := c.look(ctx, server)
		if err != nil {
			if !isServerError(err) {
				return findings, fmt.Errorf("%s: %w", c.name, err)
			}
			saw = answer{Unknown, err.Error(), hidden}
		}
		findings = append(findings, Finding{
			Check: c.name, Verdict: saw.verdict, Evidence: saw.evidence, Why: c.why, Hazard: c.hazard, Fix: saw.fix,
		})
	}
	return findings, nil
}

// missingError reports a server's answer without the value that a check needs.
type missingError string

func (e missingError) Error() string { return string(e) }

// isServerError reports whether the server has returned err.
func isServerError(err error) bool {
	var silent missingError
	var ofRedis redis.Error
	var ofPostgres *pgconn.PgError
	var ofMySQL *mysql.MySQLError
	if errors.As(err, &ofPostgres) {
		return ofPostgres.Severity != "FATAL"
	}
	return errors.As(err, &silent) || errors.As(err, &ofRedis) || errors.As(err, &ofMySQL)
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

// Count returns how many findings have that verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}
