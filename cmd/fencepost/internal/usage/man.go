package usage

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fencepost/fencepost/internal/cli"
)

// ManCmd is the command fencepost man.
type ManCmd struct{}

// Help is printed by --help below the usage line.
func (ManCmd) Help() string {
	return `The page has the text of every --help.

Examples:
  fencepost man | man -l -
  fencepost man >/usr/local/share/man/man1/fencepost.1`
}

// Run is called by kong.
func (ManCmd) Run(k *kong.Kong, std cli.Streams) error { return cli.Print(std.Out, page(k.Model)) }

// roff writes a page in the language of man(7).
type roff struct{ strings.Builder }

// purpose is the text of the section NAME, which whatis and apropos show.
const purpose = "refuse writes from a lock holder that no longer holds the lock"

// page returns the manual page: one for all commands, so that it can be searched.
func page(app *kong.Application) string {
	var r roff
	r.macro("TH", strings.ToUpper(app.Name), "1", "", version(), "")
	r.macro("SH", "NAME")
	r.text(app.Name + " - " + purpose)
	r.macro("SH", "SYNOPSIS")
	r.text(app.Name + app.Summary())
	r.macro("SH", "DESCRIPTION")
	r.text(app.Help)
	r.detail(app.Detail)
	r.macro("SH", "OPTIONS")
	r.flags(app.Node)
	r.macro("SH", "COMMANDS")
	r.commands(app.Name, app.Node)
	return r.String()
}

func (r *roff) commands(app string, parent *kong.Node) {
	for _, node := range parent.Children {
		if node.Hidden {
			continue
		}
		r.macro("SS", app+" "+node.Summary())
		r.text(node.Help)
		r.detail(node.Detail)
		for _, arg := range node.Positional {
			r.item(arg.Summary(), arg)
		}
		r.flags(node)
		r.commands(app, node)
	}
}

// flags writes the flags of node. The flags that commands share are below the command
// that they belong to.
func (r *roff) flags(node *kong.Node) {
	for _, flag := range node.Flags {
		if !flag.Hidden {
			r.item(flag.String(), flag.Value)
		}
	}
}

func (r *roff) item(name string, value *kong.Value) {
	r.macro("TP")
	r.macro("B", name)
	r.text(kong.DefaultHelpValueFormatter(value))
}

// detail writes paragraphs, and the indented lines of examples as they are.
func (r *roff) detail(text string) {
	if text == "" {
		return
	}
	for _, paragraph := range strings.Split(text, "\n\n") {
		r.macro("PP")
		for line := range strings.Lines(paragraph) {
			if !strings.HasPrefix(line, " ") {
				r.text(line)
				continue
			}
			r.macro("EX")
			r.text(line)
			r.macro("EE")
		}
	}
}

func (r *roff) macro(name string, args ...string) {
	fmt.Fprintf(r, ".%s", name)
	for _, arg := range args {
		fmt.Fprintf(r, ` "%s"`, strings.ReplaceAll(escape(arg), `"`, `\(dq`))
	}
	r.WriteString("\n")
}

func (r *roff) text(text string) {
	text = strings.Trim(text, "\n")
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		r.WriteString(`\&`)
	}
	r.WriteString(escape(text) + "\n")
}

// escape escapes what roff would change.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "~", `\(ti`, "^", `\(ha`, "`", `\(ga`, "'", `\(aq`).Replace(text)
}
