package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
)

// check looks at one thing of a server of type S.
type check[S any] struct {
	name, hazard, why string
	look              func(ctx context.Context, server S) (answer, error)
}

// answer is what a check saw.
type answer struct {
	verdict       Verdict
	evidence, fix string
}

func pass(format string, args ...any) (answer, error) {
	return answer{verdict: Pass, evidence: fmt.Sprintf(format, args...)}, nil
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

// examine makes all checks. hidden is the cure for what the server does not
// tell. What the server itself refuses is a finding; that it does not answer is
// an error.
func examine[S any](ctx context.Context, server S, hidden string, checks []check[S]) ([]Finding, error) {
	var findings []Finding
	for _, c := range checks {
		saw, err := c.look(ctx, server)
		if err != nil {
			if !told(err) {
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

// silentError is a server's answer that leaves out what was asked.
type silentError string

func (e silentError) Error() string { return string(e) }

// told reports whether err is an answer of the server.
func told(err error) bool {
	var silent silentError
	var ofRedis redis.Error
	var ofPostgres *pgconn.PgError
	if errors.As(err, &ofPostgres) {
		return ofPostgres.Severity != "FATAL"
	}
	return errors.As(err, &silent) || errors.As(err, &ofRedis)
}
