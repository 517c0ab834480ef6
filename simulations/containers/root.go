package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// root is the folder of Fencepost's own go.mod, which this folder is in.
func root() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module github.com/fencepost/fencepost\n")) {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", errors.New("this is not in a clone of Fencepost")
		}
		folder = filepath.Dir(folder)
	}
}
