package testenv

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

//go:embed galera.sh
var galeraScript string

// Paths of Galera's library in packages of Debian and Red Hat.
var galeraProviders = []string{
	"/usr/lib/galera/libgalera_smm.so", "/usr/lib/libgalera_smm.so",
	"/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib64/galera/libgalera_smm.so",
}

// Galera starts a cluster of that many nodes of this machine's MariaDB, and returns the
// DSN of each node for the driver "mysql", all with the same empty database. When it
// returns, each node is in the cluster and accepts writes. The nodes are removed at the
// end of the test.
func Galera(t testing.TB, nodes int) (dsns []string) {
	t.Helper()
	p, argv, err := galeraProgram()
	first := ""
	for range nodes {
		group, ist, sst := strconv.Itoa(serverproc.FreePort(t)), strconv.Itoa(serverproc.FreePort(t)), strconv.Itoa(serverproc.FreePort(t))
		node, joined := p, first
		node.Argv = func(folder string, port int) []string {
			return argv(filepath.Join(folder, "data"), strconv.Itoa(port), group, ist, sst, joined)
		}
		server := startOwn(t, node, err)
		if first == "" {
			first = "127.0.0.1:" + group
		}
		dsns = append(dsns, mariadbDSN(server.Port))
	}
	const database = "fencepost_test"
	for i, dsn := range dsns {
		awaitGalera(t, dsn, nodes, i == 0, database)
		dsns[i] = dsn + database
	}
	return dsns
}

func galeraProgram() (p serverproc.Program, argv func(args ...string) []string, err error) {
	if p, err = mariadbProgram(); err != nil {
		return p, nil, err
	}
	provider := ""
	for _, path := range galeraProviders {
		if _, err := os.Stat(path); err == nil {
			provider = path
			break
		}
	}
	if provider == "" {
		return p, nil, errors.New("there is no libgalera_smm.so (package galera-4)")
	}
	if _, err := exec.LookPath("rsync"); err != nil {
		return p, nil, errors.New("PATH has no rsync, which nodes use to transfer their state")
	}
	install, err := mariadbBinary("mariadb-install-db")
	if err != nil {
		return p, nil, err
	}
	server, err := mariadbBinary("mariadbd")
	if err != nil {
		return p, nil, err
	}
	p.Title, p.Ready = p.Title+" with Galera", "Synchronized with group, ready for connections"
	return p, func(args ...string) []string {
		return append([]string{"sh", "-c", galeraScript, "sh", install, server, provider}, args...)
	}, nil
}

// awaitGalera waits until a node accepts writes in a cluster of that many nodes and has
// the database. The first node creates the database.
func awaitGalera(t testing.TB, dsn string, nodes int, first bool, database string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), serverproc.Timeout)
	defer cancel()
	status := func(name string) (value string) {
		_ = db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&name, &value) // an error leaves value empty: not ready yet
		return value
	}
	ready := func() bool {
		return status("wsrep_ready") == "ON" && status("wsrep_local_state_comment") == "Synced" && status("wsrep_cluster_size") == fmt.Sprint(nodes)
	}
	for made := false; ; time.Sleep(10 * time.Millisecond) {
		if ready() && first && !made {
			if _, err := db.ExecContext(ctx, "CREATE DATABASE "+database); err != nil {
				t.Fatalf("testenv: database of a Galera cluster: %v", err)
			}
			made = true
		}
		var has int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM information_schema.schemata WHERE schema_name = '"+database+"'").Scan(&has); err == nil && has == 1 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("testenv: a node of a Galera cluster is not ready: %s, %s nodes", status("wsrep_local_state_comment"), status("wsrep_cluster_size"))
		}
	}
}
