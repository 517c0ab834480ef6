package testenv

import (
	_ "embed"
	"fmt"
	"path/filepath"
)

//go:embed postgres.sh
var postgresScript string

func postgresURL(port int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
}

func postgresProgram(settings ...string) (program, error) {
	bin, version, err := postgresBinary()
	if err != nil {
		return program{}, err
	}
	argv := func(folder string, port int) []string {
		args := []string{"sh", "-c", postgresScript, "sh", bin, filepath.Join(folder, "data"), "-p", fmt.Sprint(port)}
		settings := append([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"}, settings...)
		for _, s := range settings {
			args = append(args, "-c", s)
		}
		return args
	}
	return program{
		title: "version " + version + " of " + bin, argv: argv,
		ready: "database system is ready to accept connections", signal: "QUIT",
	}, nil
}
