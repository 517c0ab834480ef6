package simulations

import (
	"fmt"
	"testing"
	"time"
)

// Run puts s to the test: first every interleaving of a plan with two and with
// three holders, each one a subtest, then random ones for s.Budget. Each must
// hold every rule ([history.Rules]). And the unguarded twin, which is the same
// code with refusals ignored, must be corrupted by at least one interleaving of
// the plan and by a random one: if not, the run is toothless, and fails.
//
// To perform one again, give its name as it was printed:
//
//	go test -run 'TestWithdraw/plan/2_holders/A_sleeps_at_5_begin/B_writes_before/lock_free/A_wakes'
//	go test -run 'TestWithdraw/random/seed_77'
//
// Of the first that fails it writes a page with a picture, and says where: in
// t.ArtifactDir, if the test runs with -artifacts, else in [os.TempDir].
func Run(t *testing.T, s Subject) {
	t.Helper()
	s, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	pictures := &album{}
	t.Run("plan", func(t *testing.T) { runPlan(t, s, pictures) })
	t.Run("random", func(t *testing.T) { runRandom(t, s, pictures) })
	t.Run("twin", func(t *testing.T) {
		if said, err := bite(t.Context(), s); err != nil {
			t.Error(err)
		} else {
			t.Log(said)
		}
	})
}

func runPlan(t *testing.T, s Subject, pictures *album) {
	x, err := scout(t.Context(), s, false)
	if err != nil {
		t.Fatal(pictures.told(t, err))
	}
	t.Logf("simulations: a holder's steps: %q", x.steps)
	performed := 0
	for _, i := range interleavings(x.steps) {
		ok := t.Run(i.String(), func(t *testing.T) {
			performed++
			if err := x.perform(t.Context(), i); err != nil {
				t.Error(pictures.told(t, err))
			}
		})
		if !ok {
			return // the first is the simplest; and what is broken can be slow
		}
	}
	if performed == 0 {
		t.Error("simulations: no interleaving has this name. Give all of it, as it was printed; the steps may be others now")
	}
}

func runRandom(t *testing.T, s Subject, pictures *album) {
	x, err := scout(t.Context(), s, false)
	if err != nil {
		t.Fatal(pictures.told(t, err))
	}
	if seed, ok := wanted(); ok {
		runSeed(t, x, seed, pictures)
		return
	}
	n := 0
	for begun := time.Now(); s.goesOn(begun, n); n++ {
		if !runSeed(t, x, s.Seed+uint64(n), pictures) {
			return
		}
	}
	t.Logf("simulations: %d random interleavings, seeds from %d on", n, s.Seed)
}

func runSeed(t *testing.T, x *explorer, seed uint64, pictures *album) bool {
	return t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
		if err := x.shuffle(t.Context(), seed); err != nil {
			t.Error(pictures.told(t, err))
		}
	})
}
