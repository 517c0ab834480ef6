package testenv

import (
	_ "embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/migrations"
)

//go:embed versions.sql
var versionsSQL string

// anySchema is the name that stands for a schema's in script.
const anySchema = "fencepost_test_template"

// Migrate applies all migrations, in the default schema, to an empty database
// of which the URL is a superuser's.
func Migrate(t testing.TB, url string) {
	t.Helper()
	text, err := migrated("fencepost")
	if err != nil {
		t.Fatalf("testenv: migrate: %v", err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("testenv: migrate: %v", err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), text); err != nil {
		t.Fatalf("testenv: migrate: %v", err)
	}
}

// migrated is what makes a schema as migrations.Set.Up leaves it, in one
// transaction and one packet. Nearly every test begins with that, and Up, which
// looks after each step, takes ten times as long.
func migrated(schema string) (string, error) {
	text, err := script()
	return strings.ReplaceAll(text, anySchema, schema), err
}

var script = sync.OnceValues(func() (string, error) {
	set := migrations.Set{Schema: anySchema}
	tables, err := set.SQL()
	if err != nil {
		return "", err
	}
	files, err := set.FS()
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(versionsSQL)
	for _, name := range names {
		version, _, _ := strings.Cut(name, "_")
		fmt.Fprintf(&b, "INSERT INTO %s.fencepost_migrations (version_id, is_applied) VALUES (%s, true);\n", anySchema, version)
	}
	return b.String() + tables, nil
})
