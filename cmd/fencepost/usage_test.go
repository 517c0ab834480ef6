package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/run"
	"github.com/fencepost/fencepost/internal/cli"
)

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for args, same := range map[string]string{
		"help": "--help", "help run": "run -h", "help marks": "marks --help", "help marks prune": "marks prune --help", "--version": "version",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			done, expected := execute(t, strings.Fields(args)...), execute(t, strings.Fields(same)...)
			require.Zero(t, done.status)
			require.Empty(t, done.err)
			require.NotEmpty(t, done.out)
			require.Equal(t, expected.out, done.out)
			require.NotContains(t, done.out, "One writer", "hidden commands are not listed")
		})
	}
	require.Regexp(t, `^fencepost \S+ go\S+ \w+/\w+\n$`, execute(t, "--version").out)
}

func TestHelpIsPrintedIfACommandIsMissing(t *testing.T) {
	t.Parallel()
	for args, text := range map[string]string{"": "fencepost <command>", "marks": "fencepost marks <command>"} {
		done := execute(t, strings.Fields(args)...)
		require.Equal(t, 2, done.status)
		require.Empty(t, done.out)
		require.True(t, strings.HasPrefix(done.err, "Usage: "+text), done.err)
		require.Contains(t, done.err, "\nfencepost: expected one of ")
	}
}

// model returns kong's model of the commands, with its parser.
func model(t *testing.T) (*kong.Kong, []*kong.Node) {
	t.Helper()
	parser, err := newParser(cli.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	require.NoError(t, err)
	return parser, parser.Model.Leaves(true)
}

func TestEachFlagHasAVariable(t *testing.T) {
	t.Parallel()
	_, leaves := model(t)
	flags := map[string]string{} // by variable
	for _, leaf := range leaves {
		for _, flag := range slices.Concat(leaf.AllFlags(true)...) {
			unused := leaf.Name == "print" && slices.Contains([]string{"postgres", "mysql"}, flag.Name) // a variable for other commands must not choose the dialect
			if unused || slices.Contains([]string{"help", "version", "confirm"}, flag.Name) {
				require.Empty(t, flag.Envs, flag.Name)
				continue
			}
			require.NotEmpty(t, flag.Envs, "%s --%s", leaf.FullPath(), flag.Name)
			for _, name := range flag.Envs {
				require.Regexp(t, "^FENCEPOST_[A-Z_]+$", name)
				if other, found := flags[name]; found {
					require.Equal(t, other, strings.TrimPrefix(flag.Name, "key-"), "%s sets two flags", name)
				}
				flags[name] = strings.TrimPrefix(flag.Name, "key-") // of Redis; --prefix of locks list is another one
			}
		}
	}
	require.Equal(t, "ttl", flags["FENCEPOST_RUN_TTL"])
	require.Equal(t, "prefix", flags["FENCEPOST_MARKS_LIST_PREFIX"], "the prefix of Redis keys does not filter marks")
	require.Equal(t, "prefix", flags["FENCEPOST_LOCKS_LIST_PREFIX"])
	require.Equal(t, "older-than", flags["FENCEPOST_MARKS_PRUNE_OLDER_THAN"])
}

func TestVariables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		variable, args string
		status         int
		text           string
	}{
		"a variable sets its flag":              {"FENCEPOST_SIMULATE_ROUNDS=0", "simulate", 2, "rounds: 0"},
		"the flag takes precedence":             {"FENCEPOST_SIMULATE_ROUNDS=1", "simulate --rounds 0", 2, "rounds: 0"},
		"also over an invalid value":            {"FENCEPOST_SIMULATE_ROUNDS=many", "simulate --rounds 0", 2, "rounds: 0"},
		"an invalid value":                      {"FENCEPOST_SIMULATE_TTL=1y", "simulate", 2, `FENCEPOST_SIMULATE_TTL="1y"`},
		"an invalid value for run":              {"FENCEPOST_RUN_TTL=1y", "run job true", run.StatusFailed, `FENCEPOST_RUN_TTL="1y"`},
		"a password in an invalid value":        {"FENCEPOST_SIMULATE_TTL=redis://:sekret@h", "simulate", 2, "FENCEPOST_SIMULATE_TTL"},
		"--wait of run is not --wait of proxy":  {"FENCEPOST_PROXY_WAIT=1y", "run job true", run.StatusFailed, "give --redis=URL, --postgres=URL or --etcd=URL"},
		"a Redis for locks is not for simulate": {"FENCEPOST_REDIS_URL=nonsense", "simulate --rounds 0", 2, "rounds: 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, _ := command(t, strings.Fields(c.args)...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errs, append(cmd.Env, c.variable)
			require.Error(t, cmd.Run())
			requireFailed(t, finished{out: out.String(), err: errs.String(), status: cmd.ProcessState.ExitCode()}, c.status, c.text)
		})
	}
}

var exampleLine = regexp.MustCompile(`(?m)^\s+((?:[A-Z_]+=\S+ )?fencepost .*?)(?: [|#>].*)?$`)

// Each example of a --help parses, as a shell splits it.
func TestExamplesOfHelp(t *testing.T) { // sets the environment: not parallel
	parser, leaves := model(t)
	for _, node := range append(leaves, parser.Model.Node, leaves[1].Parent) {
		examples := exampleLine.FindAllStringSubmatch(node.Detail, -1)
		if slices.Contains([]string{"run", "simulate", "help", "version", "fencepost"}, node.Name) {
			require.NotEmpty(t, examples, "%s --help has no example", node.FullPath())
		}
		for _, example := range examples {
			t.Run(example[1], func(t *testing.T) {
				if name, _, found := strings.Cut(example[1], "="); found && !strings.Contains(name, " ") {
					t.Setenv(name, "set")
				}
				words, err := exec.Command("sh", "-c", `fencepost() { printf '%s\n' "$@"; }; `+example[1]).Output()
				require.NoError(t, err)
				_, err = parser.Parse(strings.Split(strings.TrimSuffix(string(words), "\n"), "\n"))
				require.NoError(t, err)
			})
		}
	}
}

// passwordInFlag matches an argument of a command with a password in a URL or a DSN. A
// variable in front of the command may have one.
var passwordInFlag = regexp.MustCompile(`fencepost .*(?:://[^\s/@]*:[^\s/@]+@|[^\s:'"/]:[^\s@]+@(?:tcp|unix)?\()`)

func TestNoExampleHasAPasswordInAFlag(t *testing.T) {
	t.Parallel()
	require.Regexp(t, passwordInFlag, `fencepost migrate check --mysql 'app:secret@tcp(db:3306)/shop'`)
	require.Regexp(t, passwordInFlag, `fencepost run --redis redis://:secret@locks:6379 job`)
	require.NotRegexp(t, passwordInFlag, `FENCEPOST_MYSQL_DSN='app:secret@tcp(db:3306)/shop' fencepost migrate check`)
	require.NotRegexp(t, passwordInFlag, `fencepost doctor --postgres postgres://app@db/shop --redis 'redis://app@db'`)

	texts := map[string]string{}
	_, leaves := model(t)
	for _, leaf := range leaves {
		texts[leaf.FullPath()] = leaf.Help + "\n" + leaf.Detail
	}
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		texts[page] = string(text)
	}
	require.Greater(t, len(texts), 10)
	for name, text := range texts {
		require.Empty(t, passwordInFlag.FindAllString(text, -1), name)
	}
}

func TestHelpShowsADefaultOnce(t *testing.T) {
	t.Parallel()
	_, leaves := model(t)
	for _, leaf := range leaves {
		for _, flag := range slices.Concat(leaf.AllFlags(true)...) {
			if flag.Default != "" && strings.Contains(flag.String(), flag.Default) {
				require.NotContains(t, flag.Help, "("+flag.Default+")", "%s --%s", leaf.FullPath(), flag.Name)
			}
		}
	}
}
