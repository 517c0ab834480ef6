package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/fencepost/fencepost/internal/picture"
)

// publish writes what --html asks for, and says where it is.
func publish(std streams, file string, quiet bool, draw func() (picture.Page, error)) error {
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
	_, err = fmt.Fprintf(std.out, "\nA picture of it: %s (open it in a browser)\n", visible(file))
	return err
}

// writePage writes a page to a file, all of it or nothing: who has the file open
// in a browser never sees half of it. What is there and is no file, such as
// /dev/stdout, is written to as it is.
func writePage(name string, p picture.Page) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return unwritten(name, writeTo(name, p))
	}
	return unwritten(name, replace(name, p))
}

func unwritten(name string, err error) error {
	if err != nil {
		return fmt.Errorf("html: %s was not written: %w", visible(name), err)
	}
	return nil
}

func writeTo(name string, p picture.Page) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return closing(file, picture.Write(file, p))
}

func replace(name string, p picture.Page) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), ".fencepost-*.html")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = joined(err, os.Remove(file.Name()))
		}
	}()
	err = picture.Write(file, p)
	if err == nil {
		err = file.Chmod(0o644)
	}
	if err = closing(file, err); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}

// closing closes c; its error counts where there was none before.
func closing(c io.Closer, err error) error { return joined(err, c.Close()) }

func joined(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
