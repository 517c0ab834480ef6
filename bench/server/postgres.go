package server

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

//go:embed postgres.sh
var postgresScript string

// settings are PostgreSQL's own but for these. The checkpoints that a run would
// cause are put off, since they hit one side or the other.
var settings = []string{
	"listen_addresses=127.0.0.1", "unix_socket_directories=",
	"fsync=on", "synchronous_commit=on", "max_wal_size=8GB", "checkpoint_timeout=1h",
}

// Postgres starts one. The role postgres is its superuser and needs no password.
func Postgres(ctx context.Context) (*Server, error) {
	bin, err := postgresFolder()
	if err != nil {
		return nil, err
	}
	return start(ctx, program{
		name: "PostgreSQL", ready: "database system is ready to accept connections", signal: "QUIT",
		url: func(port int) string {
			return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
		},
		argv: func(folder string, port int) []string {
			args := []string{"sh", "-c", postgresScript, "sh", bin, filepath.Join(folder, "data"), "-p", strconv.Itoa(port)}
			for _, s := range settings {
				args = append(args, "-c", s)
			}
			return args
		},
	})
}

// postgresFolder is PATH's, or the newest of those where Debian, Red Hat and
// Homebrew put PostgreSQL without adding it to PATH.
func postgresFolder() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	var found []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb",
		"/opt/homebrew/opt/postgresql@*/bin/initdb", "/usr/local/opt/postgresql@*/bin/initdb",
	} {
		paths, _ := filepath.Glob(pattern) // the patterns are well formed
		found = append(found, paths...)
	}
	if len(found) == 0 {
		return "", errors.New("server: this machine has no PostgreSQL: `make setup` installs it where it can")
	}
	return filepath.Dir(slices.Max(found)), nil // all that are supported have two digits
}
