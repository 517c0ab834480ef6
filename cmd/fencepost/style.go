package main

import (
	"io"
	"os"
	"runtime"
)

// style puts text into colours, where the reader sees colours.
type style struct{ on bool }

// newStyle follows https://no-color.org, and leaves pipes and files alone.
func newStyle(out io.Writer) style {
	old := runtime.GOOS == "windows" && os.Getenv("WT_SESSION") == "" // a console that would print the codes
	return style{on: terminal(out) && os.Getenv("NO_COLOR") == "" && !old}
}

// terminal reports whether out can draw over what it has drawn.
func terminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (s style) bold(text string) string   { return s.paint("1", text) }
func (s style) dim(text string) string    { return s.paint("2", text) }
func (s style) red(text string) string    { return s.paint("31", text) }
func (s style) green(text string) string  { return s.paint("32", text) }
func (s style) yellow(text string) string { return s.paint("33", text) }

func (s style) paint(code, text string) string {
	if !s.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
