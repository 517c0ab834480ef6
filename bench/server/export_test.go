package server

import "context"

// Start runs a stand-in: a shell script, which is told its folder.
func Start(ctx context.Context, script func(folder string) string) (*Server, error) {
	return start(ctx, program{
		name: "a stand-in", ready: "ready", signal: "TERM",
		url:  func(int) string { return "stand-in" },
		argv: func(folder string, _ int) []string { return []string{"sh", "-c", script(folder)} },
	})
}
