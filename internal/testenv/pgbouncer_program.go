package testenv

import (
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed pgbouncer.sh
var pgbouncerScript string

// pgbouncerURL has a role that PostgreSQL does not know: the pooler takes
// anybody, and its server's own role to the server.
func pgbouncerURL(port int) string {
	return fmt.Sprintf("postgres://anybody@127.0.0.1:%d/postgres?sslmode=disable", port)
}

// pgbouncerProgram is put in front of the shared PostgreSQL, which was found
// before.
func pgbouncerProgram() (program, error) {
	path, version, number, err := pgbouncerBinary()
	if err != nil {
		return program{}, err
	}
	server, err := pgx.ParseConfig(sharedPostgres.taken)
	if err != nil {
		return program{}, err
	}
	var settings []string
	if slices.Compare(number, []int{1, 21}) >= 0 {
		settings = append(settings, "max_prepared_statements = 0") // as every older one
	}
	argv := func(_ string, port int) []string {
		return append([]string{"sh", "-c", pgbouncerScript, "sh", path, fmt.Sprint(port), pooled(server)}, settings...)
	}
	return program{
		title: "version " + version + " of " + path, argv: argv,
		// It has nothing to lose. Of the gentler signals, some versions wait for
		// their clients, and a shell's background has others ignored.
		ready: "process up", signal: "KILL",
	}, nil
}

// pooled is where a pool's sessions are, and who they are.
func pooled(server *pgx.ConnConfig) string {
	var words []string
	for _, pair := range [][2]string{
		{"host", server.Host}, {"port", fmt.Sprint(server.Port)}, {"dbname", server.Database},
		{"user", server.User}, {"password", server.Password},
	} {
		if pair[1] != "" { // two quotes alone are a syntax error to it
			words = append(words, pair[0]+"='"+strings.ReplaceAll(pair[1], "'", "''")+"'")
		}
	}
	return strings.Join(words, " ")
}

// pgbouncerBinary looks where Debian puts it too, which is not in everybody's
// PATH.
func pgbouncerBinary() (path, version string, number []int, err error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err = exec.LookPath(name); err == nil {
			version, number, err = binaryVersion(path)
			return path, version, number, err
		}
	}
	return "", "", nil, errors.New("neither PATH nor /usr/sbin has pgbouncer")
}
