// Package usage is how the command fencepost is used, whatever it is used for: variables
// for its flags, flags of servers, durations, addresses, and the commands help and version.
// They are made from kong's model of the commands, as --help is.
package usage

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencepost/fencepost/internal/cli"
)

// Options returns the options of kong that each command relies on.
func Options() []kong.Option {
	return []kong.Option{
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
		kong.PostBuild(func(k *kong.Kong) error { addVariables(k.Model.Node, "FENCEPOST"); return nil }),
		kong.WithAfterApply(chooseServers),
		// With any resolver, an invalid variable is an error only if its flag is not given.
		kong.Resolvers(kong.ResolverFunc(func(*kong.Context, *kong.Path, *kong.Flag) (any, error) { return nil, nil })),
	}
}

func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := cli.ParseDuration(text)
	if err == nil {
		target.SetInt(int64(d))
	}
	return err
}

// Address is the value of a flag with an address to listen on.
type Address string

// UnmarshalText is called by kong. A port without a host is one of 127.0.0.1, because that of
// every interface would open it to the network.
func (a *Address) UnmarshalText(text []byte) error {
	host, port, err := net.SplitHostPort(string(text))
	if !strings.Contains(string(text), ":") {
		port, err = string(text), nil
	}
	if _, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil {
		return fmt.Errorf("%q is not an address to listen on, as 8080 (on 127.0.0.1 only), 10.0.0.5:8080, or 0.0.0.0:8080 (on all)", text)
	}
	*a = Address(net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port))
	return nil
}

// addVariables gives each flag of node and of its commands an environment variable, unless
// its tag env does: FENCEPOST_RUN_TTL for the flag --ttl of fencepost run. The command is
// in the name because flags of one name differ, as --wait of run and of proxy.
func addVariables(node *kong.Node, prefix string) {
	for _, flag := range node.Flags {
		name := prefix + "_" + variable(flag.Name)
		switch {
		case len(flag.Envs) == 1 && flag.Envs[0] == "-":
			flag.Envs = nil
		case len(flag.Envs) > 0:
		case flag.Name == "schema" || flag.Name == "prefix": // the same for every command but marks list
			flag.Envs = []string{"FENCEPOST_" + variable(flag.Name)}
		case flag.Name != "help" && flag.Name != "version" && flag.Name != "confirm": // a variable would confirm each time
			flag.Envs = []string{name}
		}
		flag.Tag.Envs = flag.Envs
	}
	for _, child := range node.Children {
		if !child.Hidden {
			addVariables(child, prefix+"_"+variable(child.Name))
		}
	}
}

func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// chooseServers reads the flags with the tag server. A flag takes precedence over the variables
// of all others, and an empty variable counts as unset. It returns an error for an empty flag,
// as from an unset shell variable, if no server is left, and, unless the tag is "all", if
// several are.
func chooseServers(ctx *kong.Context) error {
	onLine := map[*kong.Value]bool{}
	for _, path := range ctx.Path {
		switch flag := path.Flag; {
		case flag == nil || !flag.Tag.Has("server"):
		case !flag.Target.IsZero():
			onLine[flag.Value] = true
		case !flag.IsBool():
			return fmt.Errorf("--%s is empty", flag.Name)
		}
	}
	var flags, variables, given, set []string
	several := false
	for _, flag := range ctx.Flags() {
		if !flag.Tag.Has("server") {
			continue
		}
		variable := flag.Envs[0]
		flags, variables, several = append(flags, flag.Summary()), append(variables, variable), flag.Tag.Get("server") == "all"
		switch {
		case onLine[flag.Value]:
			given = append(given, "--"+flag.Name)
		case len(onLine) > 0 || os.Getenv(variable) == "":
			flag.Target.SetZero()
		case !flag.Target.IsZero():
			set = append(set, variable)
		}
	}
	switch {
	case len(flags) > 0 && len(given)+len(set) == 0:
		return fmt.Errorf("give %s, or set %s", list(flags, "or"), list(variables, "or"))
	case len(given) > 1 && !several:
		return fmt.Errorf("%s exclude each other", list(given, "and"))
	case len(set) > 1 && !several:
		return fmt.Errorf("%s exclude each other: give %s", list(set, "and"), list(flags, "or"))
	}
	return nil
}

// list joins names, as a, b or c.
func list(names []string, last string) string {
	end := max(0, len(names)-2)
	return strings.Join(append(names[:end:end], strings.Join(names[end:], " "+last+" ")), ", ")
}

// IsEmptyFlag reports whether the command line gives an empty flag, as from an unset shell
// variable. Without an error, the command would do what it does without the flag. An empty
// environment variable of the flag counts as unset.
func IsEmptyFlag(flag *string, variable string) bool {
	_, isSet := os.LookupEnv(variable)
	return flag != nil && *flag == "" && !isSet
}

// IsCommandMissing reports whether wrong is only that a command needs the name of another
// behind it, as fencepost migrate does.
func IsCommandMissing(wrong *kong.ParseError) bool {
	node := wrong.Context.Selected()
	return wrong.Context.Error == nil && (node == nil || len(node.Children) > 0) && strings.HasPrefix(wrong.Error(), "expected one of")
}

// NoColor is the flag --no-color.
type NoColor bool

// AfterApply is called by kong. It hides from the command that its output is a terminal.
func (n NoColor) AfterApply(ctx *kong.Context, std cli.Streams) error {
	if n {
		std.Out = struct{ io.Writer }{std.Out}
		ctx.Bind(std)
	}
	return nil
}

// VersionFlag is the flag --version. Unlike [kong.VersionFlag], it returns the error of a
// failed write.
type VersionFlag bool

// BeforeReset is called by kong. It prints the version and ends the process.
func (VersionFlag) BeforeReset(k *kong.Kong, std cli.Streams) error {
	err := printVersion(std)
	if err == nil {
		k.Exit(0)
	}
	return err
}

// VersionCmd is the command fencepost version.
type VersionCmd struct{}

// Help is printed by --help below the usage line.
func (VersionCmd) Help() string {
	return "The line has the version of Fencepost, that of Go, and the platform.\n\nExamples:\n  fencepost version"
}

// Run is called by kong.
func (VersionCmd) Run(std cli.Streams) error { return printVersion(std) }

func printVersion(std cli.Streams) error {
	number := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		number = info.Main.Version
	}
	return cli.Print(std.Out, fmt.Sprintf("fencepost %s %s %s/%s\n", number, runtime.Version(), runtime.GOOS, runtime.GOARCH))
}

// HelpCmd is the command fencepost help.
type HelpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, as migrate up. Without it, all commands are listed."`
}

// Help is printed by --help below the usage line.
func (HelpCmd) Help() string {
	return "It prints what --help prints.\n\nExamples:\n  fencepost help\n  fencepost help migrate up"
}

// Run is called by kong.
func (c *HelpCmd) Run(k *kong.Kong) error {
	_, err := k.Parse(append(c.Command, "--help"))
	return err
}
