package simulations

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// Run tests s. It performs every interleaving of a plan with two and with three holders,
// each as a subtest, then random ones for s.Budget, and fails if one breaks a rule. It
// also performs the unguarded twin, the same code with refusals ignored. The twin must be
// corrupted by at least one interleaving of the plan and by a random one; otherwise the
// run is vacuous, and fails. A run that did not see all that Do wrote, because a tracer is
// missing or a write has another context, fails too: see [Subject.Unseen].
//
// To perform one interleaving again, give its printed name:
//
//	go test -run 'TestWithdraw/plan/2_holders/A_sleeps_at_5_begin/B_writes_before/lock_free/A_wakes'
//	go test -run 'TestWithdraw/random/seed_77'
//
// For the first failure Run writes an HTML page with a picture, and prints its path: in
// t.ArtifactDir if the test runs with -artifacts, otherwise in [os.TempDir].
func Run(t *testing.T, s Subject) {
	t.Helper()
	s, err := s.complete()
	if err != nil {
		t.Fatal(err)
	}
	pictures := &failurePage{}
	covered := &coverage{}
	t.Run("plan", func(t *testing.T) { runPlan(t, s, pictures, covered) })
	t.Run("random", func(t *testing.T) { runRandom(t, s, pictures, covered) })
	t.Run("twin", func(t *testing.T) {
		if said, err := corruptTwin(t.Context(), s); err != nil {
			t.Error(err)
		} else {
			t.Log(said)
		}
	})
	t.Log(covered.String())
	if err := covered.unseenError(s); err != nil && !t.Failed() {
		t.Error(err)
	}
}

func runPlan(t *testing.T, s Subject, pictures *failurePage, covered *coverage) {
	x, err := scout(t.Context(), s, false, covered)
	if err != nil {
		t.Fatal(pictures.withPage(t, err))
	}
	t.Logf("simulations: a holder's steps: %q", x.steps)
	performed := 0
	ok := x.plan(func(i interleaving) bool {
		return t.Run(i.String(), func(t *testing.T) {
			performed++
			if err := x.perform(t.Context(), i); err != nil {
				t.Error(pictures.withPage(t, err))
			}
		})
	})
	if ok && performed == 0 {
		t.Error("simulations: no interleaving has this name: give the whole printed name; the steps may have changed")
	}
}

func runRandom(t *testing.T, s Subject, pictures *failurePage, covered *coverage) {
	x, err := scout(t.Context(), s, false, covered)
	if err != nil {
		t.Fatal(pictures.withPage(t, err))
	}
	if seed, ok := wanted(); ok {
		runSeed(t, x, seed, pictures)
		return
	}
	n := 0
	for begun := time.Now(); s.goesOn(begun, n); n++ {
		if !runSeed(t, x, s.Seed+uint64(n), pictures) {
			break
		}
	}
	t.Logf("simulations: %d random interleavings, seeds from %d on", n, s.Seed)
}

func runSeed(t *testing.T, x *explorer, seed uint64, pictures *failurePage) bool {
	return t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
		if err := x.shuffle(t.Context(), seed); err != nil {
			t.Error(pictures.withPage(t, err))
		}
	})
}

// Check is Run without subtests, for tests that expect a verdict. It returns the first
// [*Verdict], nil if every rule holds, or another error if s is incomplete, an interleaving
// could not be performed, or the run did not see all that Do wrote. It does not fail t; it
// logs what a pass covers.
func Check(t testing.TB, s Subject) error {
	t.Helper()
	s, err := s.complete()
	if err != nil {
		return err
	}
	covered, err := examine(t.Context(), s)
	if err == nil {
		t.Log(covered.String())
		err = covered.unseenError(s)
	}
	return err
}

func examine(ctx context.Context, s Subject) (*coverage, error) {
	covered := &coverage{}
	x, err := scout(ctx, s, false, covered)
	if err != nil {
		return covered, err
	}
	x.plan(func(i interleaving) bool {
		err = x.perform(ctx, i)
		return err == nil
	})
	if err != nil {
		return covered, err
	}
	for begun, n := time.Now(), 0; s.goesOn(begun, n); n++ {
		if err := x.shuffle(ctx, s.Seed+uint64(n)); err != nil {
			return covered, err
		}
	}
	_, err = corruptTwin(ctx, s)
	return covered, err
}

// leastSeeds is the minimum number of random interleavings for the twin, however long
// they take, unless Limit ends them. Most twins are corrupted by one of the first ten; a
// few programs, whose lock waits for its server, by one in fifty.
const leastSeeds = 2000

// corruptTwin finds an interleaving of the plan and a random one that corrupt the twin,
// and returns a text that describes both.
func corruptTwin(ctx context.Context, s Subject) (string, error) {
	x, err := scout(ctx, s, true, &coverage{})
	if err != nil {
		return "", err
	}
	n, planned := 0, error(nil)
	two, three := interleavings(x.steps, 0, 0, s.kept())
	all := append(two, three...)
	for ; n < len(all) && planned == nil && (n == 0 || !s.spent(4)); n++ {
		planned = x.perform(ctx, all[n])
	}
	if !corrupted(planned) {
		return "", x.vacuous("plan", planned, n < len(all))
	}
	m, drawn := 0, error(nil)
	for begun := time.Now(); drawn == nil && s.twinGoesOn(begun, m); m++ {
		drawn = x.shuffle(ctx, s.Seed+uint64(m))
	}
	if !corrupted(drawn) {
		return "", x.vacuous("random", drawn, m < leastSeeds)
	}
	return fmt.Sprintf("as expected, the twin was corrupted, by interleaving %d of %d and by random %d:\n%s\n%s",
		n, len(all), m, planned, drawn), nil
}

// twinGoesOn reports whether to perform another random interleaving of the twin after m.
func (s Subject) twinGoesOn(begun time.Time, m int) bool {
	return m == 0 || !s.spent(4) && (m < leastSeeds || s.goesOn(begun, m))
}

// vacuous returns the verdict for a twin that was not corrupted, or err if the twin could
// not be performed. limited means that Limit has ended it.
func (x *explorer) vacuous(plan string, err error, limited bool) error {
	switch {
	case err == nil && limited:
		return &Verdict{Interleaving: plan, LikelyCauses: []string{
			fmt.Sprintf("Limit (%s) ended the twin after %d interleavings of the plan and %d random ones. Raise Limit, or make Do faster", x.subject.Limit, x.covered.performed, x.covered.drawn),
		}}
	case err == nil:
		return &Verdict{Interleaving: plan, LikelyCauses: x.likelyVacuous()}
	}
	return fmt.Errorf("simulations: the twin: %w", err)
}

var seedName = regexp.MustCompile(`seed_(\d+)`)

// wanted returns the seed that `go test -run` selects by name.
func wanted() (seed uint64, ok bool) {
	found := seedName.FindStringSubmatch(flag.Lookup("test.run").Value.String())
	if found == nil {
		return 0, false
	}
	seed, err := strconv.ParseUint(found[1], 10, 64)
	return seed, err == nil
}
