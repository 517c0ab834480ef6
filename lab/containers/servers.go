package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/testcontainers/testcontainers-go"
)

// servers are the servers that the tests of the root module read from the environment.
type servers []*server

// all returns a PostgreSQL and a Redis for all tests. A MariaDB is added if the tests
// cannot start one on this machine and the environment names none.
func all() servers {
	wanted := servers{
		postgres("FENCEPOST_TEST_POSTGRES_URL"),
		redis("FENCEPOST_TEST_REDIS_URL"),
	}
	if os.Getenv(envMariaDB) == "" && !localMariaDB() {
		wanted = append(wanted, mariadb(envMariaDB))
	}
	return wanted
}

// start starts the servers concurrently. It returns the servers whose containers must be
// removed, also with an error.
func start(ctx context.Context, wanted servers) (servers, error) {
	provider, err := testcontainers.NewDockerProvider()
	if err == nil {
		err = provider.Health(ctx)
	}
	if err != nil {
		return nil, errors.Join(errors.New("no Docker engine answers: start one, or run `make setup test`, which needs none"), err)
	}
	var group sync.WaitGroup
	failed := make([]error, len(wanted))
	for i, s := range wanted {
		group.Go(func() { failed[i] = s.start(ctx) })
	}
	group.Wait()
	return wanted, errors.Join(failed...)
}

// environment returns the URLs as variables of the command.
func (all servers) environment() []string {
	var env []string
	for _, s := range all {
		env = append(env, s.env+"="+s.address)
	}
	return env
}

// remove kills the servers, since none of their data is kept.
func (all servers) remove() error {
	var group sync.WaitGroup
	failed := make([]error, len(all))
	for i, s := range all {
		group.Go(func() {
			failed[i] = testcontainers.TerminateContainer(s.container, testcontainers.StopTimeout(0))
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

const envMariaDB = "FENCEPOST_TEST_MARIADB_URL"

// localMariaDB reports whether the tests find MariaDB's programs on this machine, in the
// folders that internal/test/testenv searches.
func localMariaDB() bool {
	for _, name := range []string{"mariadb-install-db", "mariadbd"} {
		found := false
		for _, folder := range []string{"", "/usr/sbin", "/usr/bin", "/opt/homebrew/opt/mariadb/bin", "/usr/local/opt/mariadb/bin"} {
			_, err := exec.LookPath(filepath.Join(folder, name))
			found = found || err == nil
		}
		if !found {
			return false
		}
	}
	return true
}
