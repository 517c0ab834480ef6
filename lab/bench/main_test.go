package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	relayIfAsked() // a relay runs this binary
	leaktest.Main(m)
}

var three = []group{{name: "redis"}, {name: "write"}, {name: "http"}}

func TestOptions(t *testing.T) {
	t.Parallel()
	for args, c := range map[string]struct {
		pace   pace
		groups string
	}{
		"":                          {full, "redis,write,http"},
		"-quick":                    {quick, "redis,write,http"},
		"-only write":               {full, "write"},
		"-only=http,redis":          {full, "redis,http"},
		"-only write,write":         {full, "write"},
		"-quick -only write":        {quick, "write"},
		"--quick=false --only=http": {full, "http"},
	} {
		p, chosen, err := parse(three, strings.Fields(args), t.Output())
		require.NoError(t, err, args)
		require.Equal(t, c.pace, p, args)
		require.Equal(t, c.groups, names(chosen), args)
	}
	for args, want := range map[string]string{
		"-only pglock":       `no group "pglock": there are redis,write,http`,
		"-only write,pglock": `no group "pglock": there are redis,write,http`,
		"-only write,":       `no group "": there are redis,write,http`,
		"-quick write":       `unknown argument "write"`,
		"-fast":              "flag provided but not defined: -fast",
		"-only":              "flag needs an argument: -only",
	} {
		var printed strings.Builder
		_, _, err := parse(three, strings.Fields(args), &printed)
		require.EqualError(t, err, want)
		require.Empty(t, printed.String(), "run prints the error, once")
	}
	var help strings.Builder
	_, _, err := parse(three, []string{"-h"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, text := range []string{"-quick", "-only groups", "redis,write,http"} {
		require.Contains(t, help.String(), text)
	}
	require.Equal(t, "redis,handover,renew,pglock,write,once,http,scale", names(groups()))
}

// one returns a group with one figure.
func one(f figure) []group { return []group{{"write", []measurement{f}}} }

func TestRowsArePrintedBeforeWhatFails(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	all := one(func(context.Context, *env) []row { return []row{{name: "ours", baseline: "plain"}} })
	all[0].all = append(all[0].all, figure(func(context.Context, *env) []row { return must([]row(nil), errors.New("connection refused")) }))
	require.Equal(t, 2, run(all, nil, &out, &errs))
	require.Equal(t, tableHead+"| ours | plain | | | | | | |\n", out.String())
	require.Equal(t, "bench: write: connection refused\n", errs.String())
}

func TestTheServersEndHoweverTheRunDoes(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"measured": nil, "failed": errors.New("connection refused")} {
		stopped := 0
		var errs strings.Builder
		status := run(one(func(_ context.Context, e *env) []row {
			e.closers = append(e.closers, func() error { stopped++; return errors.New("it does not end") })
			return must([]row(nil), failure)
		}), nil, io.Discard, &errs)
		require.Equal(t, 2, status, name)
		require.Equal(t, 1, stopped, name)
		require.Contains(t, errs.String(), "it does not end", name)
	}
	var errs strings.Builder
	require.Equal(t, 2, run(groups(), []string{"-only", "locks"}, io.Discard, &errs), "no server starts")
}

// This test is not parallel: the signal reaches every run of this process.
func TestAnInterruptEndsTheServers(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	stopped := 0
	var errs strings.Builder
	require.Equal(t, 130, run(one(func(ctx context.Context, e *env) []row {
		e.closers = append(e.closers, func() error { stopped++; return nil })
		check(self.Signal(os.Interrupt))
		<-ctx.Done()
		return must([]row(nil), ctx.Err())
	}), nil, io.Discard, &errs))
	require.Equal(t, "bench: ended by signal: interrupt\n", errs.String())
	require.Equal(t, 1, stopped)
}

func TestARowIsALineOfMarkdown(t *testing.T) {
	t.Parallel()
	r := row{name: "Table.Update", baseline: "plain UPDATE"}
	r.cells[overLink] = []value{{median: 1.0249, target: atMost(1.02)}, {median: 1.0251, target: atMost(1.02)}}
	r.cells[serverCPU] = []value{{median: 0.98949, target: atLeast(0.99)}, {median: 0.9895, target: atLeast(0.99)}}
	r.cells[overLoopback] = []value{{median: 1, q1: 0.9951, q3: 1.0049, noise: true}}
	r.cells[packets] = []value{{}, {median: 12.345}, {median: 1070.4}}
	require.Equal(t, "| Table.Update | plain UPDATE | 1.02 (≤ 1.02) · **1.03** (≤ 1.02) | **0.989** (≥ 0.99) · 0.990 (≥ 0.99) | | "+
		"1.00 [0.995–1.00] | 0 · 12.3 · 1070 | |\n", r.String())
}

// The values are those of R's quantile(x, p), whose default is type 7.
func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sorted  []float64
		p, want float64
	}{
		{[]float64{7}, 0.25, 7},
		{[]float64{7}, 1, 7},
		{[]float64{1, 2}, 0.5, 1.5},
		{[]float64{1, 2, 3, 4}, 0, 1},
		{[]float64{1, 2, 3, 4}, 0.25, 1.75},
		{[]float64{1, 2, 3, 4}, 0.75, 3.25},
		{[]float64{1, 2, 4, 8, 16}, 0.75, 8},
		{[]float64{0.9, 1, 1, 1.1, 1.3, 9}, 0.75, 1.25},
	} {
		require.InDelta(t, c.want, quantile(c.sorted, c.p), 1e-12, "%v at %v", c.sorted, c.p)
	}
	require.Equal(t, value{median: 2, q1: 1.5, q3: 3, target: atMost(2)}, middle([]float64{4, 1, 2}, atMost(2)), "unsorted values")
}
