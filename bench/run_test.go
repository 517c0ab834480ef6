package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/measure"
)

func TestAFailureEndsTheServersAndSaysWhere(t *testing.T) {
	t.Parallel()
	failing := costing("On(…).Exec", 100, 0)
	failing.Ours = func(context.Context, int) error { return errors.New("connection refused") }
	var stopped int
	all := []group{standIn("write", &stopped, failing), standIn("http", &stopped, costing("never", 100, 0))}
	var out, errs strings.Builder
	require.Equal(t, 2, run(all, []string{"-json"}, &out, &errs))
	require.Equal(t, "bench: write: On(…).Exec: connection refused\n", errs.String())
	require.Empty(t, out.String())
	require.Equal(t, 1, stopped)
}

func TestServersThatDoNotStartOrStopAreErrors(t *testing.T) {
	t.Parallel()
	var errs strings.Builder
	all := []group{{"write", func(context.Context) ([]measure.Measurement, func() error, error) {
		return nil, nil, errors.New("no PostgreSQL")
	}}}
	require.Equal(t, 2, run(all, nil, io.Discard, &errs))
	all = []group{{"write", func(context.Context) ([]measure.Measurement, func() error, error) {
		return nil, func() error { return errors.New("it does not end") }, nil
	}}}
	require.Equal(t, 2, run(all, nil, io.Discard, &errs))
	require.Equal(t, "bench: no PostgreSQL\nbench: it does not end\n", errs.String())
}

func TestBadFlagsStartNoServer(t *testing.T) {
	t.Parallel()
	var errs strings.Builder
	require.Equal(t, 2, run(groups, []string{"-only", "locks"}, io.Discard, &errs))
	require.Equal(t, "bench: no group \"locks\": there are write,http,redis,handover,pglock,renew\n", errs.String())
}

// It is not parallel: the signal is for every run of this process.
func TestAnInterruptEndsTheServers(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	endless := costing("endless", 100, 0)
	endless.Ours = func(ctx context.Context, _ int) error {
		if err := self.Signal(os.Interrupt); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	var stopped int
	var errs strings.Builder
	require.Equal(t, 130, run([]group{standIn("write", &stopped, endless)}, nil, io.Discard, &errs))
	require.Equal(t, "bench: ended by signal: interrupt\n", errs.String())
	require.Equal(t, 1, stopped)
}

func TestAQuickGroupTakesHalfAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		op := func(context.Context, int) error { time.Sleep(time.Millisecond); return nil }
		var figures []measure.Figure
		for range 30 {
			figures = append(figures, measure.Figure{Name: "ours", Baseline: "plain", Plain: op, Ours: op})
		}
		var stopped int
		start := time.Now()
		require.NoError(t, measureAll(t.Context(), []group{standIn("write", &stopped, figures...)}, []string{"-quick"}, io.Discard, io.Discard))
		require.InDelta(t, 30, time.Since(start).Seconds(), 1)
	})
}
