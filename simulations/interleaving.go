package simulations

import (
	"fmt"
	"strings"
)

// interleaving is one way in which two or three holders can meet. All of them
// are told in one sentence:
//
//	2_holders/A_sleeps_at_5_begin/B_writes_before/lock_free/A_wakes
type interleaving struct {
	holders   int
	at        int    // the step that the sleepers sleep at, from 0
	step      string // its name
	successor successor
	free      bool // nobody has the lock when they wake
	dies      bool // A never wakes
	reversed  bool // of two sleepers B wakes first
}

// successor is when the holder after the sleepers writes.
type successor int

const (
	before successor = iota // they wake
	after                   // they woke, under a token from before that
	never
)

// interleavings lists all of a plan with the steps that a holder goes through:
// the simplest first, each at every step, so that what is broken is soon found.
func interleavings(steps []string) []interleaving {
	var all []interleaving
	for holders := 2; holders <= 3; holders++ {
		for _, successor := range []successor{before, after, never} {
			for v := range 8 {
				for at, step := range steps {
					i := interleaving{
						holders: holders, at: at, step: step, successor: successor,
						free: v&1 != 0, dies: v&2 != 0, reversed: v&4 != 0,
					}
					if i.sensible() {
						all = append(all, i)
					}
				}
			}
		}
	}
	return all
}

// sensible leaves out what is another interleaving already. A crashed holder
// whose lock nobody takes and nobody comes for is no interleaving at all.
func (i interleaving) sensible() bool {
	switch {
	case i.reversed && i.holders == 2:
		return false
	case i.successor == never && !i.free && (i.dies || i.holders == 3):
		return false
	}
	return true
}

// sleepers are the names of those who sleep, in the order in which they came.
func (i interleaving) sleepers() []string { return []string{"A", "B", "C"}[:i.holders-1] }

// last is the name of the successor.
func (i interleaving) last() string { return []string{"A", "B", "C"}[i.holders-1] }

func (i interleaving) String() string {
	who, verb := strings.Join(i.sleepers(), "_and_"), "sleeps"
	if i.holders > 2 {
		verb = "sleep"
	}
	return fmt.Sprintf("%d_holders/%s_%s_at_%d_%s/%s_writes_%s/lock_%s/%s",
		i.holders, who, verb, i.at+1, i.step, i.last(),
		[]string{"before", "after", "never"}[i.successor], choose(i.free, "free", "held"), i.ending())
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
