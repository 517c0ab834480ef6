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

// ofSequences and ofUnlogged are found in the findings that have a check of
// their own.
var (
	ofSequences = []string{" has CACHE ", " has CYCLE", " has INCREMENT ", " has MAXVALUE "}
	ofUnlogged  = []string{" is UNLOGGED"}
)

func postgresSchema(ctx context.Context, s *postgresServer) (answer, error) {
	return s.found(ctx, "it has what this version needs", func(finding string) bool {
		return !contains(finding, ofSequences) && !contains(finding, ofUnlogged)
	})
}

func postgresSequences(ctx context.Context, s *postgresServer) (answer, error) {
	return s.found(ctx, "CACHE 1, NO CYCLE", func(finding string) bool { return contains(finding, ofSequences) })
}

func postgresUnlogged(ctx context.Context, s *postgresServer) (answer, error) {
	return s.found(ctx, "all are logged", func(finding string) bool { return contains(finding, ofUnlogged) })
}

// found says what [migrations.Set.Check] finds of one kind. Of a schema that is
// not there, or that this role may not use, only one of the checks can tell.
func (s *postgresServer) found(ctx context.Context, well string, ours func(finding string) bool) (answer, error) {
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
		return pass("%s", well)
	}
	return fail(strings.Join(evidence, "; "), strings.Join(slices.Compact(fixes), "; "))
}

func (s *postgresServer) findings(ctx context.Context) ([]string, error) {
	db := stdlib.OpenDB(*s.config)
	defer db.Close()
	err := migrations.Set{Schema: s.schema}.Check(ctx, db)
	var all *migrations.CheckError
	if errors.As(err, &all) {
		return all.Findings, nil
	}
	return nil, err
}

// usable is nil where there is no such schema.
func (s *postgresServer) usable(ctx context.Context) (*bool, error) {
	var usable *bool
	err := s.conn.QueryRow(ctx, "SELECT (SELECT pg_catalog.has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = $1)", s.schema).
		Scan(&usable)
	return usable, err
}

func contains(finding string, any []string) bool {
	return slices.ContainsFunc(any, func(text string) bool { return strings.Contains(finding, text) })
}
