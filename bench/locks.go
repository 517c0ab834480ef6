package main

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/bench/handover"
	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/pglock"
	"github.com/fencepost/fencepost/bench/redis"
	"github.com/fencepost/fencepost/bench/renew"
	"github.com/fencepost/fencepost/internal/testenv"
)

// startNodes starts so many Redis servers, which keep nothing on disk.
func startNodes(n int) (urls []string, stop func() error, err error) {
	var servers []*testenv.Server
	stop = func() (err error) {
		for _, s := range servers {
			err = errors.Join(err, s.Stop())
		}
		return err
	}
	for range n {
		s, err := testenv.StartRedis()
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		servers = append(servers, s)
		urls = append(urls, s.URL)
	}
	return urls, stop, nil
}

func startRedis(ctx context.Context) ([]measure.Measurement, func() error, error) {
	urls, stop, err := startNodes(3)
	if err != nil {
		return nil, nil, err
	}
	g, err := redis.Open(ctx, urls...)
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return measure.All(g.Figures()), func() error { g.Close(); return stop() }, nil
}

func startHandover(ctx context.Context) ([]measure.Measurement, func() error, error) {
	urls, stop, err := startNodes(1)
	if err != nil {
		return nil, nil, err
	}
	g, err := handover.Open(ctx, urls[0])
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return measure.All(g.Trials()), func() error { g.Close(); return stop() }, nil
}

func startRenew(ctx context.Context) ([]measure.Measurement, func() error, error) {
	urls, stop, err := startNodes(1)
	if err != nil {
		return nil, nil, err
	}
	g, err := renew.Open(ctx, urls[0])
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return measure.All(g.Trials()), func() error { g.Close(); return stop() }, nil
}

func startPglock(ctx context.Context) ([]measure.Measurement, func() error, error) {
	s, err := startPostgres()
	if err != nil {
		return nil, nil, err
	}
	g, err := pglock.Open(ctx, s.URL)
	if err != nil {
		return nil, nil, errors.Join(err, s.Stop())
	}
	return g.Measurements(), func() error { g.Close(); return s.Stop() }, nil
}
