package testenv

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// PgBouncer starts this machine's PgBouncer for this test, in transaction mode in front of
// the shared PostgreSQL, and returns its URL. All clients of the URL share four sessions.
// Its tables are those of Postgres. A test must leave one session free, or it deadlocks
// with itself. The pooler is removed at the end of the test.
func PgBouncer(t testing.TB) string {
	t.Helper()
	return OwnPgBouncer(t, "")
}

// OwnPgBouncer is PgBouncer with a server at addr, such as a proxy in front of the shared
// PostgreSQL, or at its own if addr is empty. The settings are lines of pgbouncer.ini.
func OwnPgBouncer(t testing.TB, addr string, settings ...string) string {
	t.Helper()
	p, err := pgbouncerProgram(PostgresURL(t), addr, settings)
	return pgbouncerURL(startOwn(t, p, err).Port)
}

// DropPooled makes the pooler of a URL of PgBouncer close the connections of its clients
// and its sessions. The pooler continues to run.
func DropPooled(ctx context.Context, pooler string) error {
	config, err := pgx.ParseConfig(pooler)
	if err != nil {
		return err
	}
	database := pgx.Identifier{config.Database}.Sanitize()
	config.Database = "pgbouncer" // its console
	console, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	_, kill := console.PgConn().Exec(ctx, "KILL "+database).ReadAll()
	_, resume := console.PgConn().Exec(ctx, "RESUME "+database).ReadAll()
	return errors.Join(kill, resume, console.Close(ctx))
}

//go:embed pgbouncer.sh
var pgbouncerScript string

// pgbouncerURL has a role that PostgreSQL does not have: the pooler accepts any role, and
// uses the server's own role for its sessions.
func pgbouncerURL(port int) string {
	return fmt.Sprintf("postgres://anybody@127.0.0.1:%d/postgres?sslmode=disable", port)
}

// pgbouncerProgram returns a pooler of the server's sessions. It reaches the server at addr
// if that is not empty.
func pgbouncerProgram(server, addr string, settings []string) (serverproc.Program, error) {
	path, version, number, err := pgbouncerBinary()
	if err != nil {
		return serverproc.Program{}, err
	}
	config, err := pgx.ParseConfig(server)
	if err != nil {
		return serverproc.Program{}, err
	}
	if host, port, err := net.SplitHostPort(addr); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return serverproc.Program{}, err
		}
		config.Host, config.Port = host, uint16(number)
	}
	// By default the pooler waits some seconds after a failed login to the server.
	settings = append(settings, "server_login_retry = 0")
	if slices.Compare(number, []int{1, 21}) >= 0 {
		settings = append(settings, "max_prepared_statements = 0") // as in older versions
	}
	argv := func(_ string, port int) []string {
		return append([]string{"sh", "-c", pgbouncerScript, "sh", path, fmt.Sprint(port), pooled(config)}, settings...)
	}
	return serverproc.Program{
		Title: "version " + version + " of " + path, Argv: argv,
		// It has nothing to lose. Some versions wait for their clients after gentler
		// signals, and a shell ignores others in its background.
		Ready: "process up", Signal: "KILL",
	}, nil
}

// pooled returns the address and the credentials of a pool's sessions.
func pooled(server *pgx.ConnConfig) string {
	var words []string
	for _, pair := range [][2]string{
		{"host", server.Host}, {"port", fmt.Sprint(server.Port)}, {"dbname", server.Database},
		{"user", server.User}, {"password", server.Password},
	} {
		if pair[1] != "" { // PgBouncer refuses an empty value
			words = append(words, pair[0]+"='"+strings.ReplaceAll(pair[1], "'", "''")+"'")
		}
	}
	return strings.Join(words, " ")
}

// pgbouncerBinary also searches /usr/sbin, where Debian puts it and which may be missing
// from PATH.
func pgbouncerBinary() (path, version string, number []int, err error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err = exec.LookPath(name); err == nil {
			version, number, err = binaryVersion(path)
			return path, version, number, err
		}
	}
	return "", "", nil, errors.New("neither PATH nor /usr/sbin has pgbouncer")
}
