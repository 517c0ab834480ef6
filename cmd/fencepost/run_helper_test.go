package main

import (
	"testing"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// runLock is a server with the lock of a run.
type runLock struct {
	url   string
	flag  string   // of the url
	own   []string // what keeps it apart from other tests
	flags []string // all of them
	token.Issuer
}

func runLocks(t *testing.T) map[string]runLock {
	t.Helper()
	client, prefix := testenv.Redis(t)
	pool, schema := testenv.Postgres(t)
	locks := map[string]runLock{
		"redis": {url: testenv.RedisURL(t), flag: "--redis", own: []string{"--prefix", prefix},
			Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}},
		"postgres": {url: testenv.PostgresURL(t), flag: "--postgres", own: []string{"--schema", schema},
			Issuer: &pgtoken.Issuer{DB: pool, Schema: schema}},
	}
	for name, lock := range locks {
		locks[name] = lock.at(lock.url)
	}
	return locks
}

// at returns the same server with another URL.
func (l runLock) at(url string) runLock {
	l.flags = append([]string{l.flag, url}, l.own...)
	return l
}

// execute runs a program to its end.
func (l runLock) execute(t *testing.T, name string, program ...string) finished {
	t.Helper()
	return execute(t, append(append([]string{"run"}, l.flags...), append([]string{name, "--"}, program...)...)...)
}
