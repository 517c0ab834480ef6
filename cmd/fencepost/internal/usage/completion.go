package usage

import (
	"embed"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fencepost/fencepost/internal/cli"
)

// The scripts run the hidden command complete for each completion. They offer files if
// that prints nothing.
//
//go:embed completion
var scripts embed.FS

// CompletionCmd is the command fencepost completion.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is printed by --help below the usage line.
func (CompletionCmd) Help() string {
	return `The script completes commands, flags and the values of some flags. Source it in the file that the shell reads when it starts.

Examples:
  echo 'source <(fencepost completion bash)' >>~/.bashrc
  echo 'source <(fencepost completion zsh)' >>~/.zshrc    # below compinit
  fencepost completion fish >~/.config/fish/completions/fencepost.fish`
}

// Run is called by kong.
func (c *CompletionCmd) Run(std cli.Streams) error {
	script, err := scripts.ReadFile("completion/fencepost." + c.Shell)
	if err != nil {
		return err
	}
	return cli.Print(std.Out, string(script))
}

// CompleteCmd is the hidden command fencepost complete, which the scripts run.
type CompleteCmd struct {
	Words []string `arg:"" passthrough:"" help:"The words of the line behind fencepost, up to the cursor."`
}

// Run is called by kong. It prints a line for each word that can stand in place of the
// last one, followed by a tab and its description.
func (c *CompleteCmd) Run(k *kong.Kong, std cli.Streams) error {
	words := c.Words[1:] // behind --
	if len(words) == 0 {
		return nil
	}
	var b strings.Builder
	last := words[len(words)-1]
	for _, found := range candidates(k.Model.Node, words[:len(words)-1], last) {
		if strings.HasPrefix(found.word, last) {
			b.WriteString(found.word + "\t" + found.help + "\n")
		}
	}
	return cli.Print(std.Out, b.String())
}

type candidate struct{ word, help string }

// candidates returns the words that can follow before. last is the beginning of that word.
func candidates(root *kong.Node, before []string, last string) []candidate {
	node, given := root, 0 // given counts the arguments
	for len(before) > 0 {
		word := before[0]
		before = before[1:]
		if flag := flagOf(node, word); flag != nil {
			if !flag.IsBool() && !strings.Contains(word, "=") {
				if len(before) == 0 {
					return values(flag.Value, "")
				}
				before = before[1:]
			}
			continue
		}
		child := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		switch {
		case child >= 0 && node.Children[child].Name == "help":
			node = root
		case child >= 0:
			node = node.Children[child]
		default:
			given++
		}
	}
	if given > 0 && given >= len(node.Positional) {
		return nil // as the program of a run, and its arguments
	}
	if flag := flagOf(node, last); flag != nil && strings.Contains(last, "=") {
		return values(flag.Value, "--"+flag.Name+"=")
	}
	if strings.HasPrefix(last, "-") {
		return flags(node)
	}
	if given < len(node.Positional) {
		return values(node.Positional[given], "")
	}
	return commandsOf(node)
}

// flagOf returns the flag that word gives, or nil.
func flagOf(node *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(word, "=")
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			if name == "--"+flag.Name || flag.Short != 0 && name == "-"+string(flag.Short) {
				return flag
			}
		}
	}
	return nil
}

func flags(node *kong.Node) (found []candidate) {
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			found = append(found, candidate{"--" + flag.Name, flag.Help})
		}
	}
	return found
}

func values(value *kong.Value, prefix string) (found []candidate) {
	if value.Enum == "" {
		return nil
	}
	for _, word := range value.EnumSlice() {
		found = append(found, candidate{prefix + word, ""})
	}
	return found
}

func commandsOf(node *kong.Node) (found []candidate) {
	for _, child := range node.Children {
		if !child.Hidden {
			found = append(found, candidate{child.Name, child.Help})
		}
	}
	return found
}
