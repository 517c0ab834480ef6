package picture

import (
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escaped is text as HTML and XML show it.
func escaped(text string) string { return html.EscapeString(visible(text)) }

// visible writes out what neither HTML nor XML may contain, and what cannot be
// seen or turns the direction of the text.
func visible(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[0]), 16))
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case !unicode.IsPrint(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// brief is text in at most n characters, its middle left out: names differ at
// both ends.
func brief(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	head := (n - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(n-1-head):])
}

// balanced is wrap with lines that are about equally long.
func balanced(text string, size, width float64, n int) []string {
	lines := wrap(text, size, width, n)
	for narrower := width - 10; narrower > width/2; narrower -= 10 {
		again := wrap(text, size, narrower, n)
		if len(again) > len(lines) || again[len(again)-1] != lines[len(lines)-1] && len(lines) == n {
			break
		}
		lines = again
	}
	return lines
}

// wrap breaks text into lines no wider than width, of which there are at most n.
func wrap(text string, size, width float64, n int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if longer := strings.TrimSpace(line + " " + word); line == "" || wide(longer, size) <= width {
			line = longer
			continue
		}
		if len(lines) == n-1 {
			return append(lines, line+" …")
		}
		lines = append(lines, line)
		line = word
	}
	return append(lines, line)
}
