package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// startTime is far above the seconds that a start takes: it only ends a hang.
const startTime = 2 * time.Minute

// await returns when the server's own log says that it is ready, so that it is
// never taken for another one that has the same port.
func (p program) await(ctx context.Context, folder string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		log, _ := os.ReadFile(filepath.Join(folder, "log")) // not there yet: not ready
		if strings.Contains(string(log), p.ready) {
			return nil
		}
		if _, err := os.Stat(filepath.Join(folder, "ended")); err == nil {
			return fmt.Errorf("it did not start: %s", tail(log))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it did not start in time: %w: %s", context.Cause(ctx), tail(log))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func tail(log []byte) string {
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
