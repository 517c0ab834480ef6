package process

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/fencepost/fencepost/internal/child"
)

const (
	// EnvRounds sets Rounds where Options leave it open.
	EnvRounds     = "FENCEPOST_ROUNDS"
	defaultRounds = 50
	// patience bounds one step of a round.
	patience = time.Minute
	// slack is what a machine may be late without anything being wrong.
	slack = 10 * time.Second
)

// Where A is stopped, besides at a step by its name.
const (
	// Everywhere takes A's steps in turn, round by round.
	Everywhere = ""
	// Anytime is some moment in the course of A's work, whatever it is at.
	Anytime = "anytime"
)

// Options say what to run. Subject is required.
type Options struct {
	// Subject is one of those that were given to Serve, and Conf is for its
	// Open. Conf reaches the writers by a pipe: it may hold passwords.
	Subject, Conf string
	// Pause is how A is stopped; zero is [SIGSTOP].
	Pause Pause
	// At is the step of Do where A is stopped: "begin", "admitted", "statement",
	// "commit", "applied", "request", "response", or what Do tells
	// simulations.Point. "do" comes right before Do, "done" right after it. The
	// error for a name that A does not come by lists those that it does. Or
	// [Everywhere], or [Anytime].
	//
	// A step between the last read and the transaction, or the request, that
	// writes makes every round one where a stale write is attempted. Where no
	// guard, driver or transport tells of the write, Do tells of it by
	// simulations.Point(ctx, "begin"), right before.
	At string
	// Nth says at which step of that name, from 1; zero is the first. Where Do
	// takes the lock itself and claims, say, the first "begin" is the claim's.
	// Everywhere and Anytime pay no attention to it.
	Nth int
	// Rounds of each, the guarded and the twin. Zero is what EnvRounds says, or
	// else 50.
	Rounds int
	// Seed draws the moments. Zero means another one each time.
	Seed uint64
}

func (o Options) complete() (Options, error) {
	if !child.CanStop {
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
	return o, o.Pause.check()
}
