package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/fencepost/fencepost/internal/rounds"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/simulations"
)

const (
	// EnvRounds is the environment variable that sets Rounds if Options.Rounds is zero.
	EnvRounds     = "FENCEPOST_ROUNDS"
	defaultRounds = 50
)

// Values of Options.At that are not the name of a step.
const (
	// Everywhere stops A at each of its steps in turn, one for each round.
	Everywhere = rounds.Everywhere
	// Anytime stops A at a random moment of its work.
	Anytime = rounds.Anytime
)

// Options configure a run. Subject is required.
type Options struct {
	// Subject is the name of a subject that was passed to Serve. Conf is passed to its
	// Open, through a pipe, so it may contain passwords; its zero value is passed too.
	Subject, Conf string
	// Pause is how A is stopped. Zero means [SIGSTOP].
	Pause Pause
	// At is the step of Do at which A is stopped: "begin", "admitted", "statement",
	// "commit", "applied", "request", "response", or a name that Do passes to
	// simulations.Failpoint. "do" is right before Do, and "done" right after it. If A
	// does not reach the step, the error lists the steps that it does reach. At may also
	// be [Everywhere], which is the zero value, or [Anytime].
	//
	// At a step between the last read and the transaction or request that writes, every
	// round attempts a stale write. If no guard, driver or transport reports the write,
	// Do must call simulations.Failpoint(ctx, "begin") right before it.
	At string
	// Nth selects among steps of the same name, from 1; zero means the first. For
	// example, if Do takes the lock itself and claims, the first "begin" is the claim's.
	// Everywhere and Anytime ignore it.
	Nth int
	// Rounds is the number of rounds, both guarded and of the twin. Zero means the value
	// of EnvRounds, or 50 if that is not set.
	Rounds int
	// Seed is the seed of the random moments. Zero means a random seed, which is printed.
	Seed uint64
}

func (o Options) complete() (Options, error) {
	if !subprocess.CanStop {
		return o, errors.New("process: this system has no SIGSTOP")
	}
	if o.Rounds == 0 {
		o.Rounds = defaultRounds
		if text := os.Getenv(EnvRounds); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return o, fmt.Errorf("process: %s: %w", EnvRounds, err)
			}
			o.Rounds = n
		}
	}
	switch {
	case o.Rounds < 1:
		return o, fmt.Errorf("process: %d rounds", o.Rounds)
	case o.Nth < 0:
		return o, fmt.Errorf("process: there is no step number %d", o.Nth)
	}
	o.Pause, o.Nth = cmp.Or(o.Pause, SIGSTOP), cmp.Or(o.Nth, 1)
	o.Seed = cmp.Or(o.Seed, 1+rand.Uint64N(1e9))
	if o.Pause != SIGSTOP && o.Pause != SIGKILL {
		return o, fmt.Errorf("process: no such pause: %q", o.Pause)
	}
	return o, nil
}

// Pause is how a writer is stopped.
type Pause = rounds.Pause

const (
	// SIGSTOP stops the process. At a step the signal is sent to the thread itself, so
	// that no further instruction runs.
	SIGSTOP = rounds.SIGSTOP
	// SIGKILL ends the process. A new one replaces it.
	SIGKILL = rounds.SIGKILL
)

// Open returns the subject for conf, which is [Options.Conf]: URLs, a schema, a resource.
// It is called in each writer's process, and in the test's process to count. Every call
// must return the same resource on the same servers. end, if not nil, releases the
// subject. The subject's Claim, Mark, Unguarded, TTL and MaxBlocking are used; Budget, Limit
// and Seed are ignored.
type Open func(ctx context.Context, conf string) (s simulations.Subject, end func() error, err error)

// Subjects are the subjects of a test binary by name.
type Subjects map[string]Open

// writerRole is the role of a writer's process.
const writerRole = "fencepost writer"

// served are the subjects that TestMain has passed to Serve.
var served Subjects

// Serve runs a writer, and exits, if this process was started as one. Otherwise it
// returns at once. Call it first in TestMain; it takes m to ensure that it is called from
// there.
func Serve(_ *testing.M, subjects Subjects) {
	served = subjects
	subprocess.Serve(map[string]func(*subprocess.Parent) error{
		writerRole: func(parent *subprocess.Parent) error { return rounds.Serve(parent, openUnits) },
	})
}

// open returns the subject with the given name.
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

// openUnits is [rounds.Open].
func openUnits(ctx context.Context, _, name, conf string) (rounds.Subject, func() error, error) {
	s, end, err := open(ctx, name, conf)
	return rounds.Subject{Issuer: s.Issuer, Resource: s.Resource, TTL: s.TTL, Do: s.Do, Unguarded: s.Unguarded, Claim: s.Claim}, end, err
}
