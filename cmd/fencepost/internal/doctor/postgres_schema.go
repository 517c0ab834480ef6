package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencepost/fencepost/migrations"
)

// ofSequences and ofUnlogged are texts in findings that have checks of their own.
var (
	ofSequences = []string{" has CACHE ", " has CYCLE", " has INCREMENT ", " has MAXVALUE "}
	ofUnlogged  = []string{" is UNLOGGED"}
)

func postgresSchema(ctx context.Context, s *postgresServer) (answer, error) {
	return s.ofKind(ctx, "it is complete for this version", func(finding string) bool {
		return !contains(finding, ofSequences) && !contains(finding, ofUnlogged)
	})
}

func postgresSequences(ctx context.Context, s *postgresServer) (answer, error) {
	return s.ofKind(ctx, "CACHE 1, NO CYCLE", func(finding string) bool { return contains(finding, ofSequences) })
}

func postgresUnlogged(ctx context.Context, s *postgresServer) (answer, error) {
	return s.ofKind(ctx, "all are logged", func(finding string) bool { return contains(finding, ofUnlogged) })
}

// ofKind returns the findings of [migrations.Set.Check] of one kind. If the schema is
// missing, or this role may not use it, only one of the checks fails.
func (s *postgresServer) ofKind(ctx context.Context, well string, ours func(finding string) bool) (answer, error) {
	usable, err := s.usable(ctx)
	if err != nil {
		return answer{}, err
	}
	name := pgx.Identifier{s.schema}.Sanitize()
	const up = "fencepost migrate up, or --schema with its name"
	switch {
	case usable == nil && ours(""):
		return fail("schema "+name+" is not there", up)
	case usable == nil:
		return unknown("schema "+name+" is not there", up)
	case !*usable:
		return unknown("this role may not use schema "+name,
			fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO it, or examine with the application's role", name))
	}
	findings, err := s.findings(ctx)
	if err != nil {
		return answer{}, err
	}
	var evidence, fixes []string
	for _, finding := range findings {
		if ours(finding) {
			what, fix, _ := strings.Cut(finding, ": ")
			evidence, fixes = append(evidence, what), append(fixes, fix)
		}
	}
	if len(evidence) == 0 {
		return pass(well)
	}
	return fail(strings.Join(evidence, "; "), strings.Join(slices.Compact(fixes), "; "))
}

// findings returns the findings of all three checks. It calls Check once.
func (s *postgresServer) findings(ctx context.Context) ([]string, error) {
	if s.found == nil {
		db := stdlib.OpenDB(*s.config)
		defer db.Close()
		all := new(migrations.CheckError)
		err := migrations.Set{Schema: s.schema, DangerouslyTrustEngine: true}.Check(ctx, db)
		if err != nil && !errors.As(err, &all) {
			return nil, err
		}
		s.found = all
	}
	return s.found.Findings, nil
}

// usable is nil if there is no such schema.
func (s *postgresServer) usable(ctx context.Context) (*bool, error) {
	var usable *bool
	err := s.conn.QueryRow(ctx, "SELECT (SELECT pg_catalog.has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = $1)", s.schema).
		Scan(&usable)
	return usable, err
}

func contains(finding string, any []string) bool {
	return slices.ContainsFunc(any, func(text string) bool { return strings.Contains(finding, text) })
}
