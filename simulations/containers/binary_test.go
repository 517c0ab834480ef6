package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// binary is the writer, which needs nothing of the image that it runs in.
func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "writer")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./writer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}
