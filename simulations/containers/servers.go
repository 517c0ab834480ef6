package main

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/testcontainers/testcontainers-go"
)

// servers are those that the tests of the root module read from the environment.
type servers []*server

// all are a PostgreSQL and a Redis for every test, and one of each that a test
// may crash or empty. Only the one that is crashed has to flush its log. A
// MariaDB is among them where this machine has none that the tests could start,
// and nobody has named one.
func all() servers {
	wanted := servers{
		postgres("FENCEPOST_TEST_POSTGRES_URL", "fsync=off"),
		redis("FENCEPOST_TEST_REDIS_URL"),
		postgres("FENCEPOST_TEST_SPARE_POSTGRES_URL"),
		redis("FENCEPOST_TEST_SPARE_REDIS_URL"),
	}
	if os.Getenv(envMariaDB) == "" && !localMariaDB() {
		wanted = append(wanted, mariadb(envMariaDB))
	}
	return wanted
}

// start starts them at once. It returns those whose containers are to be
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

// environment is the URLs as the arguments' variables.
func (all servers) environment() []string {
	var env []string
	for _, s := range all {
		env = append(env, s.env+"="+s.address)
	}
	return env
}

// remove ends the servers at once, since nothing of theirs is kept.
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
