package main

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var three = []group{{name: "redis"}, {name: "write"}, {name: "http"}}

func TestOptions(t *testing.T) {
	t.Parallel()
	for args, c := range map[string]struct {
		budget time.Duration
		json   bool
		groups string
	}{
		"":                                 {fullBudget, false, "redis,write,http"},
		"-quick":                           {quickBudget, false, "redis,write,http"},
		"-json":                            {fullBudget, true, "redis,write,http"},
		"-only write":                      {fullBudget, false, "write"},
		"-only=http,redis":                 {fullBudget, false, "redis,http"},
		"-only write,write":                {fullBudget, false, "write"},
		"-quick -json -only write":         {quickBudget, true, "write"},
		"--quick=false --json --only http": {fullBudget, true, "http"},
	} {
		o, err := parse(three, strings.Fields(args), t.Output())
		require.NoError(t, err, args)
		require.Equal(t, c.budget, o.plan.Budget, args)
		require.Equal(t, c.json, o.json, args)
		require.Equal(t, c.groups, names(o.groups), args)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-only pglock":       `no group "pglock": there are redis,write,http`,
		"-only write,pglock": `no group "pglock": there are redis,write,http`,
		"-only write,":       `no group "": there are redis,write,http`,
		"write":              `unknown argument "write"`,
		"-quick write":       `unknown argument "write"`,
		"-fast":              "flag provided but not defined: -fast",
		"-only":              "flag needs an argument: -only",
	} {
		var said strings.Builder
		_, err := parse(three, strings.Fields(args), &said)
		require.EqualError(t, err, want)
		require.Empty(t, said.String(), "it is told once")
	}
}

func TestHelpTellsTheFlagsAndTheGroups(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	_, err := parse(three, []string{"-h"}, &said)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, text := range []string{"-quick", "-json", "-only groups", "redis,write,http"} {
		require.Contains(t, said.String(), text)
	}
}

func TestTheGroupsThatAreBuilt(t *testing.T) {
	t.Parallel()
	require.Equal(t, "write,http,redis,handover,pglock,renew", names(groups))
}
