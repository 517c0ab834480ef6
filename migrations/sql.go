package migrations

import (
	"fmt"
	"io/fs"
	"strings"
)

// SQL returns what [Up] would apply to an empty database as one plain script,
// for psql and other tools. It is [Set.SQL] of the zero Set.
func SQL() (string, error) { return Set{}.SQL() }

// SQL returns the Up halves of the set's files as one plain script without
// goose's comments. It does not begin or commit a transaction: run it in one
// (psql --single-transaction). It keeps no versions; applied to a database
// that has the tables already it fails, and so does [Set.Up] after it.
func (s Set) SQL() (string, error) {
	files, err := s.FS()
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", fmt.Errorf("migrations: %w", err)
	}
	var script strings.Builder
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", fmt.Errorf("migrations: %w", err)
		}
		fmt.Fprintf(&script, "-- %s\n%s", name, up(string(text)))
	}
	return script.String(), nil
}

// up returns the Up half of a goose file.
func up(text string) string {
	var half strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "-- +goose Down"):
			return half.String()
		case strings.HasPrefix(line, "-- +goose"):
		default:
			half.WriteString(line)
		}
	}
	return half.String()
}
