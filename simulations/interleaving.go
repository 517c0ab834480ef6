package simulations

import (
	"fmt"
	"slices"
	"strings"
)

// interleaving is one order of the steps of two or three holders. Its name describes it
// completely:
//
//	2_holders/A_sleeps_at_5_begin/B_writes_before/lock_free/A_wakes
type interleaving struct {
	holders   int
	at        int    // the step at which the paused holders stop, from 0
	step      string // its name
	successor successor
	free      bool // the lock is free when they wake
	dies      bool // A never wakes
	reversed  bool // of two paused holders B wakes first
	answer    int  // the reply that A does not get, counted from 1; 0 if it gets all
	commit    int  // A's COMMIT that is not sent, counted from 1; A gets no reply either
	sleeps    bool // A stops after the lost reply
}

// successor is when the last holder writes, relative to the paused holders.
type successor int

const (
	before    successor = iota // before they wake
	meanwhile                  // after they wake, having reached the same step before that
	after                      // after they wake, with a token from before that
	never
)

// interleavings returns all interleavings of a plan, with two holders and with three, for
// the given steps of a holder, replies to its writes, and COMMITs. The simplest come
// first, each at every step, so that a mistake is found soon. kept is for a lock that Do
// takes itself.
func interleavings(steps []string, answers, commits int, kept bool) (ofTwo, ofThree []interleaving) {
	two := atSteps(2, steps, kept)
	simplest := func(i interleaving) bool {
		return (i.successor == before || i.successor == meanwhile) && !i.free && !i.dies
	}
	for _, i := range two {
		if simplest(i) {
			ofTwo = append(ofTwo, i)
		}
	}
	for answer := 1; answer <= answers; answer++ {
		ofTwo = append(ofTwo, interleaving{holders: 2, answer: answer, successor: after}, interleaving{holders: 2, answer: answer, sleeps: true})
	}
	for commit := 1; commit <= commits; commit++ {
		ofTwo = append(ofTwo, interleaving{holders: 2, commit: commit, successor: after}, interleaving{holders: 2, commit: commit, sleeps: true})
	}
	return append(ofTwo, slices.DeleteFunc(two, simplest)...), atSteps(3, steps, kept)
}

func atSteps(holders int, steps []string, kept bool) (all []interleaving) {
	for _, successor := range []successor{before, meanwhile, after, never} {
		for v := range 8 {
			for at, step := range steps {
				i := interleaving{
					holders: holders, at: at, step: step, successor: successor,
					free: v&1 != 0, dies: v&2 != 0, reversed: v&4 != 0,
				}
				if i.sensible() && !(kept && i.claimsOnly()) {
					all = append(all, i)
				}
			}
		}
	}
	return all
}

// claimsOnly reports whether the successor takes the lock and gives it back without a
// unit of work before the paused holders wake.
func (i interleaving) claimsOnly() bool { return i.successor == after && i.free }

// sensible reports whether the interleaving differs from all others. A crashed holder
// whose lock no writer takes and no writer waits for makes no interleaving.
func (i interleaving) sensible() bool {
	switch {
	case i.reversed && i.holders == 2:
		return false
	case i.successor == meanwhile && (i.free || i.dies || i.holders > 2):
		return false
	case i.successor == never && !i.free && (i.dies || i.holders == 3):
		return false
	}
	return true
}

// unanswered reports whether A does not get the outcome of a write.
func (i interleaving) unanswered() bool { return i.answer > 0 || i.commit > 0 }

// pausedNames returns the names of the paused holders, in the order in which they
// acquired the lock.
func (i interleaving) pausedNames() []string { return []string{"A", "B", "C"}[:i.holders-1] }

// last returns the name of the successor.
func (i interleaving) last() string { return []string{"A", "B", "C"}[i.holders-1] }

func (i interleaving) String() string {
	if i.unanswered() {
		what, n := "answer", i.answer
		if i.commit > 0 {
			what, n = "commit", i.commit
		}
		return fmt.Sprintf("2_holders/A_loses_%s_%d/B_writes_%s", what, n, choose(i.sleeps, "before_A_hears", "after"))
	}
	who, verb := strings.Join(i.pausedNames(), "_and_"), "sleeps"
	if i.holders > 2 {
		verb = "sleep"
	}
	return fmt.Sprintf("%d_holders/%s_%s_at_%d_%s/%s_writes_%s/lock_%s/%s",
		i.holders, who, verb, i.at+1, i.step, i.last(),
		[]string{"before", "meanwhile", "after", "never"}[i.successor], choose(i.free, "free", "held"), i.ending())
}

func (i interleaving) ending() string {
	ending := "A_" + choose(i.dies, "crashes", "wakes")
	if i.holders == 2 {
		return ending
	}
	return ending + choose(i.reversed, "_last", "_first")
}

func choose(yes bool, this, that string) string {
	if yes {
		return this
	}
	return that
}
