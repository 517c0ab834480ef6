package main

import (
	"context"
	"errors"
	"strings"

	"github.com/fencepost/fencepost/bench/http"
	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/write"
	"github.com/fencepost/fencepost/internal/testenv"
)

// group is what is measured on the same servers.
type group struct {
	name string
	// start starts the servers and returns what is measured on them; stop ends
	// the servers.
	start func(ctx context.Context) (all []measure.Measurement, stop func() error, err error)
}

// groups are all that there are, in the order in which they are measured.
var groups = []group{
	{"write", startWrite}, {"http", startHTTP},
	{"redis", startRedis}, {"handover", startHandover}, {"pglock", startPglock}, {"renew", startRenew},
}

func names(all []group) string {
	var names []string
	for _, g := range all {
		names = append(names, g.name)
	}
	return strings.Join(names, ",")
}

// startPostgres has the server wait for its disk. The checkpoints that a run would
// cause are put off, since they hit one side or the other.
func startPostgres() (*testenv.Server, error) {
	return testenv.StartPostgres("fsync=on", "synchronous_commit=on", "max_wal_size=8GB", "checkpoint_timeout=1h")
}

func startWrite(ctx context.Context) ([]measure.Measurement, func() error, error) {
	s, err := startPostgres()
	if err != nil {
		return nil, nil, err
	}
	w, err := write.Open(ctx, s.URL)
	if err != nil {
		return nil, nil, errors.Join(err, s.Stop())
	}
	return measure.All(w.Figures()), func() error { w.Close(); return s.Stop() }, nil
}

func startHTTP(ctx context.Context) ([]measure.Measurement, func() error, error) {
	postgres, err := startPostgres()
	if err != nil {
		return nil, nil, err
	}
	redis, err := testenv.StartRedis()
	if err != nil {
		return nil, nil, errors.Join(err, postgres.Stop())
	}
	stop := func() error { return errors.Join(redis.Stop(), postgres.Stop()) }
	h, err := http.Open(ctx, postgres.URL, redis.URL)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return measure.All(h.Figures()), func() error { h.Close(); return stop() }, nil
}
