package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A Style colors text, or leaves it as it is. The zero Style leaves it.
type Style struct{ on bool }

// NewStyle returns a Style that colors text if out is a terminal and the variable NO_COLOR is
// not set (https://no-color.org).
func NewStyle(out io.Writer) Style {
	old := runtime.GOOS == "windows" && os.Getenv("WT_SESSION") == "" // the old console prints the codes
	return Style{on: Terminal(out) && os.Getenv("NO_COLOR") == "" && !old}
}

// Terminal reports whether out is a terminal that can overwrite a line.
func Terminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Bold returns text in bold.
func (s Style) Bold(text string) string { return s.paint("1", text) }

// Dim returns text in a fainter color.
func (s Style) Dim(text string) string { return s.paint("2", text) }

// Red returns text in red.
func (s Style) Red(text string) string { return s.paint("31", text) }

// Green returns text in green.
func (s Style) Green(text string) string { return s.paint("32", text) }

// Yellow returns text in yellow.
func (s Style) Yellow(text string) string { return s.paint("33", text) }

func (s Style) paint(code, text string) string {
	if !s.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

const lineWidth = 79 // some terminals wrap after the last column

// A Line is one line of a terminal that is overwritten. The zero Line prints nothing.
type Line struct {
	Out   io.Writer
	Drawn bool // Out is a terminal
	last  string
}

// NewLine returns a line of out. If out is not a terminal, the line prints nothing.
func NewLine(out io.Writer) Line { return Line{Out: out, Drawn: Terminal(out)} }

// Put overwrites the line with text.
func (l *Line) Put(text string) {
	if !l.Drawn || text == l.last {
		return
	}
	fmt.Fprint(l.Out, "\r", text, strings.Repeat(" ", max(0, lineWidth-utf8.RuneCountInString(text))))
	l.last = text
}

// Clear empties the line.
func (l *Line) Clear() {
	if l.Drawn && l.last != "" {
		l.Put("")
		fmt.Fprint(l.Out, "\r")
	}
}

// JSONLine returns v as one line of JSON. It escapes the characters that [Visible] escapes.
func JSONLine(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range string(text) {
		if r < utf8.RuneSelf || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, half := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, half)
		}
	}
	return b.String() + "\n", nil
}

// Columns returns a line for each row, with the cells aligned in columns.
func Columns(rows [][]string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, "  "+strings.Join(row, "\t"))
	}
	w.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// Print writes the result of a command.
func Print(out io.Writer, text string) error {
	_, err := io.WriteString(out, text)
	return err
}

// PrintResult prints v as a line of JSON if asJSON is set, and text otherwise.
func PrintResult(out io.Writer, asJSON bool, v any, text string) (err error) {
	if asJSON {
		if text, err = JSONLine(v); err != nil {
			return err
		}
	}
	return Print(out, text)
}

// Visible returns text with escapes in place of characters that a terminal would execute or
// not show. The table of marks refuses control characters, but accepts characters that
// change the direction of the text.
func Visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// Fill breaks text into lines of at most 80 columns, each indented by indent.
func Fill(text string, indent int) string {
	const width = 80
	margin := strings.Repeat(" ", indent)
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			switch {
			case line == "":
				line = margin + word
			case len(line)+1+len(word) > width:
				lines = append(lines, line)
				line = margin + word
			default:
				line += " " + word
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// ReadLine returns one line of the input, without its end. If the input ends first, it
// returns the text until then, and ends the line of the prompt. If ctx ends first, it returns
// ctx's cause.
func ReadLine(ctx context.Context, std Streams) (string, error) {
	lines := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(std.In).ReadString('\n')
		if err != nil {
			fmt.Fprintln(std.Err)
		}
		lines <- strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	}()
	select {
	case text := <-lines:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
