package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fencepost/fencepost/internal/timeline"
)

// CheckPage returns an error if the file of --html cannot be written, so that a command can
// refuse it before its work. It writes nothing. An empty name is no error.
func CheckPage(name string) error {
	if name == "" {
		return nil
	}
	switch info, err := os.Stat(name); {
	case err == nil && info.IsDir():
		return unwritten(name, errors.New("it is a folder"))
	case err == nil && !info.Mode().IsRegular():
		return nil // opening it could block, or end its reader
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return unwritten(name, err)
	}
	file, err := createTemp(name)
	if err != nil {
		return unwritten(name, err)
	}
	return unwritten(name, cmp.Or(file.Close(), os.Remove(file.Name())))
}

// createTemp creates a file that can be renamed to name.
func createTemp(name string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(name), ".fencepost-*.html")
}

// PublishPage writes the page for --html, and prints its path unless quiet. If file is
// empty, it does nothing.
func PublishPage(std Streams, file string, quiet bool, draw func() (timeline.Page, error)) error {
	if file == "" {
		return nil
	}
	drawn, err := draw()
	if err != nil {
		return err
	}
	if err := writePage(file, drawn); err != nil || quiet {
		return err
	}
	_, err = fmt.Fprintf(std.Out, "\nA picture of it: %s (open it in a browser)\n", Visible(file))
	return err
}

// writePage writes a page to a file, all of it or nothing, so that a browser never loads half
// of it. If name is not a regular file, as /dev/stdout, it writes to that directly.
func writePage(name string, p timeline.Page) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return unwritten(name, writeTo(name, p))
	}
	return unwritten(name, replace(name, p))
}

func unwritten(name string, err error) error {
	if err != nil {
		return fmt.Errorf("html: %s was not written: %w", Visible(name), err)
	}
	return nil
}

func writeTo(name string, p timeline.Page) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return cmp.Or(timeline.Write(file, p), file.Close())
}

func replace(name string, p timeline.Page) (err error) {
	file, err := createTemp(name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	if err = cmp.Or(timeline.Write(file, p), file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
