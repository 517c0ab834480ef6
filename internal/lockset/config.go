package lockset

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/internal/child"
)

// The original's figures.
const (
	Processes = 5               // one for each node, as Jepsen's default is
	TTL       = 2 * time.Second // of the lock
	Work      = 2 * time.Second // at most, between read and write
	Every     = 5 * time.Second // mean of the time to a pause, and of its length
	Length    = 2 * time.Minute // of the run
)

// Config is one run. All but Idle and Env are required.
//
// A pause stops a random, non-empty part of the processes with SIGSTOP, after a
// time between 0 and 2·Every, and lasts between 0 and 2·Every: the times of the
// original, which paused etcd's nodes, the leader or all of them, so that its
// clients could not renew. Here the servers live, and it is the holders of the
// lock that stand.
type Config struct {
	Argv, Env []string // starts a process that calls [Serve]

	Redis    string // URL
	Prefix   string // of all keys
	Postgres string // URL
	Schema   string // holds the marks, as migrated; the sets' table is made in it

	Ways      []Way
	Processes int
	TTL       time.Duration
	Work      time.Duration // an addition works for less than this
	Every     time.Duration
	Length    time.Duration
	Idle      time.Duration // of sqlguard.Guard
	Seed      uint64        // of pauses and work; what happens between them is nobody's to repeat
}

var errConfig = errors.New("lockset: a required field of the configuration is missing")

func (c Config) check() error {
	if !child.CanStop {
		return errors.New("lockset: this system cannot stop a process")
	}
	named := c.Redis != "" && c.Prefix != "" && c.Postgres != "" && c.Schema != ""
	if !named || len(c.Argv) == 0 || len(c.Ways) == 0 || c.Processes < 1 {
		return errConfig
	}
	if c.TTL <= 0 || c.Work <= 0 || c.Every <= 0 || c.Length <= 0 {
		return errConfig
	}
	return nil
}
