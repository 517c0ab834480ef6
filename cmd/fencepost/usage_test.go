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
			unused := leaf.Name == "print" && slices.Contains([]string{"postgres", "mysql"}, flag.Name) // it calls no server
			if unused || slices.Contains([]string{"help", "version", "confirm"}, flag.Name) {
				require.Empty(t, flag.Envs, flag.Name)
				continue
			}
			if leaf.FullPath() == "fencepost migrate print" && (flag.Name == "postgres" || flag.Name == "mysql") {
				require.Empty(t, flag.Envs, "a variable for other commands must not choose the dialect")
				continue
			}
			require.NotEmpty(t, flag.Envs, "%s --%s", leaf.FullPath(), flag.Name)
			for _, name := range flag.Envs {
				require.Regexp(t, "^FENCEPOST_[A-Z_]+$", name)
				if other, found := flags[name]; found {
					require.Equal(t, other, flag.Name, "%s sets two flags", name)
				}
				flags[name] = flag.Name
			}
		}
	}
	require.Equal(t, "ttl", flags["FENCEPOST_RUN_TTL"])
	require.Equal(t, "prefix", flags["FENCEPOST_MARKS_LIST_PREFIX"], "the prefix of Redis keys does not filter marks")
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
		"--wait of run is not --wait of proxy":  {"FENCEPOST_PROXY_WAIT=1y", "run job true", run.StatusFailed, "give --redis or --postgres"},
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
func TestExamplesOfHelp(t *testing.T) {
	t.Parallel()
	parser, leaves := model(t)
	for _, node := range append(leaves, parser.Model.Node, leaves[1].Parent) {
		examples := exampleLine.FindAllStringSubmatch(node.Detail, -1)
		if slices.Contains([]string{"run", "simulate", "help", "completion", "version", "fencepost"}, node.Name) {
			require.NotEmpty(t, examples, "%s --help has no example", node.FullPath())
		}
		for _, example := range examples {
			words, err := exec.Command("sh", "-c", `fencepost() { printf '%s\n' "$@"; }; `+example[1]).Output()
			require.NoError(t, err, example[1])
			_, err = parser.Parse(strings.Split(strings.TrimSuffix(string(words), "\n"), "\n"))
			require.NoError(t, err, example[1])
		}
	}
}

// passwordInFlag matches an argument of a command with a password in a URL or a DSN. A
// variable in front of the command may have one.
var passwordInFlag = regexp.MustCompile(`fencepost .*(?:://[^\s/@]*:[^\s/@]+@|[^\s:'"/]:[^\s@]+@(?:tcp|unix)?\()`)

func TestNoExampleHasAPasswordInAFlag(t *testing.T) {
	t.Parallel()
	require.Regexp(t, passwordInFlag, `fencepost doctor --mysql 'app:secret@tcp(db:3306)/shop'`)
	require.Regexp(t, passwordInFlag, `fencepost run --redis redis://:secret@locks:6379 job`)
	require.NotRegexp(t, passwordInFlag, `FENCEPOST_MYSQL_DSN='app:secret@tcp(db:3306)/shop' fencepost doctor`)
	require.NotRegexp(t, passwordInFlag, `fencepost doctor --postgres postgres://app@db/shop --mysql 'app@tcp(db:3306)/shop'`)

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

// onPath returns the environment in which this test binary is the command fencepost.
func onPath(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(folder, "fencepost")))
	return append(os.Environ(), asCommand+"=1", "HOME="+folder, "PATH="+folder+":"+os.Getenv("PATH"))
}

// shells complete the line that is their argument, and print the words that they offer.
var shells = map[string][]string{
	"bash": {"bash", "--norc", "-c", `source <(fencepost completion bash)
		complete -p fencepost >/dev/null || exit
		COMP_LINE=$1 COMP_POINT=${#1}
		_fencepost fencepost
		printf '%s\n' "${COMPREPLY[@]}"`, "bash"},
	"zsh": {"zsh", "-f", "-c", `compdef() { [[ "$*" == "_fencepost fencepost" ]] || exit 1 }
		_describe() { print -rl -- "${(@P)2%%:*}" }
		_files() { }
		source <(fencepost completion zsh)
		words=(${=1}); [[ $1 != *' ' ]] || words+=("")
		CURRENT=$#words PREFIX=$words[-1]
		_fencepost`, "zsh"},
	"fish": {"fish", "--no-config", "-c", `fencepost completion fish | source; complete -C "$argv[1]" | string replace -r '\t.*' ''; true`},
}

func TestShellsComplete(t *testing.T) {
	t.Parallel()
	for shell, argv := range shells {
		for line, expected := range map[string]string{
			"fencepost mig":                                         "migrate",
			"fencepost migrate ":                                    "check down print status up",
			"fencepost run --gra":                                   "--grace",
			"fencepost run --redis redis://h:1 --at-m":              "--at-most",
			"fencepost run --wait 1m --at-l":                        "--at-least",
			"fencepost completion ":                                 "bash fish zsh",
			"fencepost proxy --log-format ":                         "json text",
			"fencepost proxy --log-format=j":                        "--log-format=json",
			"fencepost proxy --access-log --log-format j":           "json",
			"fencepost help marks p":                                "prune",
			"fencepost wri":                                         "", // writer is hidden
			"fencepost run job -- ls --at":                          "", // the program's flag
			"fencepost simulate --html /no/such/folder/page":        "", // a file
			"fencepost marks prune --older-than 30d --dangerously-": "--dangerously-trust-engine --dangerously-young",
		} {
			t.Run(shell+": "+line, func(t *testing.T) {
				t.Parallel()
				cmd := exec.Command(argv[0], append(argv[1:], line)...)
				cmd.Env, cmd.Dir = onPath(t), t.TempDir()
				out, err := cmd.Output()
				require.NoError(t, err, "the tests need %s: run 'make setup'", shell)
				found := strings.Fields(string(out))
				slices.Sort(found)
				if shell == "bash" { // which replaces only the part behind =
					expected = strings.TrimPrefix(expected, "--log-format=")
				}
				require.Equal(t, expected, strings.Join(found, " "))
			})
		}
	}
}
