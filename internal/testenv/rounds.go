package testenv

import (
	"os"
	"strconv"
	"testing"
)

// Rounds is how often a test does what it does: as often as the environment
// variable says, which must be a number above zero, or else the usual number of
// times.
func Rounds(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("testenv: %s=%s is no number of rounds", variable, text)
	}
	return n
}
