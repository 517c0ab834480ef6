package process

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/fencepost/fencepost/simulations"
)

// Open makes a subject as conf says, which is [Options.Conf]: URLs, a schema, a
// resource. It is called in each writer's process, and in the test's own to
// count. Every call must return the same resource of the same servers. end, if
// not nil, ends it. Claim, Mark, Unguarded, TTL and Bound of the subject are
// used; Budget and Seed are not.
type Open func(ctx context.Context, conf string) (s simulations.Subject, end func() error, err error)

// Subjects are what the writers of this test binary can be started with, by
// name.
type Subjects map[string]Open

// envWriter makes a test binary a writer.
const envWriter = "FENCEPOST_PROCESS_WRITER"

// served are the Subjects of this binary, once TestMain has named them.
var served Subjects

// Serve does the writer's part and exits where this process was started as one,
// and otherwise returns at once. It is to be called first in TestMain, from
// which it takes m as a sign that this is a test.
func Serve(_ *testing.M, subjects Subjects) {
	served = subjects
	if os.Getenv(envWriter) == "" {
		return
	}
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// open makes the subject of that name.
func open(ctx context.Context, name, conf string) (simulations.Subject, func() error, error) {
	known, ok := served[name]
	if !ok {
		return simulations.Subject{}, nil, fmt.Errorf("process: TestMain serves no subject %q", name)
	}
	s, end, err := known(ctx, conf)
	if err != nil {
		return s, nil, fmt.Errorf("process: open %s: %w", name, err)
	}
	if end == nil {
		end = func() error { return nil }
	}
	if s.Issuer == nil || s.Resource == "" || s.Do == nil || s.Count == nil {
		_ = end()
		return s, nil, fmt.Errorf("process: subject %s lacks one of Issuer, Resource, Do, Count", name)
	}
	if s.TTL == 0 {
		s.TTL = simulations.DefaultTTL
	}
	return s, end, nil
}
