package testenv

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"
)

// endTimeout bounds what is done when a test is over.
const endTimeout = 30 * time.Second

// afterTest is for clean-up: the test's own context is cancelled by then.
func afterTest(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), endTimeout)
}

// unique is a name that no other test has, of lower-case letters and digits
// behind the prefix.
func unique(prefix string) string {
	return prefix + strings.ToLower(rand.Text()[:13])
}
