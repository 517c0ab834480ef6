//go:build !linux

package child_test

import "errors"

func playHere(string) error { return errors.New("no such role") }
