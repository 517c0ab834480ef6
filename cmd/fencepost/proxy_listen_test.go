package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/usage"
)

// A port without a host must not open the service to the network.
func TestProxyListensOnThisMachineUnlessAHostIsGiven(t *testing.T) {
	t.Parallel()
	address := func(listen, admin string) (string, string) {
		p := startProxy(t, "http://127.0.0.1:1", "--dangerously-memory", "--resource", "a", "--listen", listen, "--admin", admin)
		return p.address, strings.TrimPrefix(p.admin, "http://")
	}
	for listen, admin := range map[string]string{":0": "0", "0": ":0"} {
		service, operator := address(listen, admin)
		require.Regexp(t, `^127\.0\.0\.1:\d+$`, service, listen)
		require.Regexp(t, `^127\.0\.0\.1:\d+$`, operator, admin)
	}
	service, operator := address("0.0.0.0:0", "[::]:0") // the twin
	require.NotContains(t, service, "127.0.0.1")
	require.NotContains(t, operator, "127.0.0.1")
}

func TestAddressesToListenOnHaveOneForm(t *testing.T) {
	t.Parallel()
	_, leaves := model(t)
	var flags [][2]string // command and flag
	for _, leaf := range leaves {
		for _, flag := range slices.Concat(leaf.AllFlags(true)...) {
			if _, is := flag.Target.Interface().(usage.Address); is || flag.PlaceHolder == "ADDR" {
				require.IsType(t, usage.Address(""), flag.Target.Interface(), flag.Name)
				flags = append(flags, [2]string{leaf.Name, "--" + flag.Name})
			}
		}
	}
	require.Equal(t, [][2]string{{"serve", "--listen"}, {"proxy", "--listen"}, {"proxy", "--admin"}}, flags)
	page, err := os.ReadFile("../../docs/command.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Addresses\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	given := map[string][]string{
		"serve": {"serve", "--memory"},
		"proxy": {"proxy", "--upstream", "http://127.0.0.1:1", "--dangerously-memory", "--resource", "a", "--listen", "0"},
	}
	for _, f := range flags {
		command, flag := f[0], f[1]
		require.Contains(t, section, "`"+flag+"`")
		for _, wrong := range []string{"", "localhost", "::1:8080", "http://127.0.0.1:8080"} {
			done := execute(t, slices.Concat(given[command], []string{flag + "=" + wrong})...)
			requireFailed(t, done, 2, flag+`: "`+wrong+`" is not an address to listen on, as 8080 (on 127.0.0.1 only), 10.0.0.5:8080, or 0.0.0.0:8080 (on all)`)
		}
	}
}
