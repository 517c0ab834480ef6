package process_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/process"
)

// Code without a fence, and code that looks at it in time and writes later, do
// not survive.
//
// hazard G1
func TestCodeThatDoesNotSurvive(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{"lock only", "check"} {
		for _, pause := range []process.Pause{process.SIGSTOP, process.StopTheWorld} {
			t.Run(subject+" and "+string(pause), func(t *testing.T) {
				t.Parallel()
				c, _ := newLedger(t)
				_, err := process.Examine(t, process.Options{Subject: subject, Conf: c.String(), Pause: pause, At: computed, Rounds: 2})
				var v *process.Verdict
				require.ErrorAs(t, err, &v)
				require.False(t, v.Toothless())
				require.True(t, v.Breaks("order"), "%v", v)
				require.True(t, v.Breaks("once"), "%v", v)
				require.False(t, v.Breaks("alone"))
				require.Equal(t, 2, v.Report.Guarded.Accepted)
				require.Equal(t, 2, v.Report.Guarded.Lost)
				require.ErrorContains(t, err, "2 updates lost")
			})
		}
	}
}

// Rounds in which nobody comes too late prove nothing.
func TestRoundsThatProveNothing(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	_, err := process.Examine(t, process.Options{Subject: "postgres", Conf: c.String(), At: "applied", Rounds: 2})
	var v *process.Verdict
	require.ErrorAs(t, err, &v)
	require.True(t, v.Toothless())
	require.ErrorContains(t, err, "toothless")
	require.Equal(t, 2, v.Report.Twin.Early)
}

// Nor do they where it is only the twin that comes too late.
func TestRoundsWhoseGuardIsNeverPutToTheTest(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	_, err := process.Examine(t, process.Options{Subject: "in time", Conf: c.String(), At: computed, Rounds: 2})
	var v *process.Verdict
	require.ErrorAs(t, err, &v)
	require.True(t, v.Toothless())
	require.Equal(t, 2, v.Report.Guarded.Early)
	require.Equal(t, 2, v.Report.Twin.Accepted)
}

func TestWhatCannotBeRun(t *testing.T) {
	t.Parallel()
	c, _ := newLedger(t)
	for name, bad := range map[string]struct {
		options process.Options
		text    string
	}{
		"a subject that nobody serves": {process.Options{Subject: "nobody"}, `no subject "nobody"`},
		"a step that A does not take":  {process.Options{Subject: "postgres", At: "lunch"}, `does not come by step "lunch" 1 times, but by ["acquire"`},
		"a subject that always fails":  {process.Options{Subject: "fails"}, "Do fails although nobody disturbs it: unknown: context deadline exceeded"},
		"no such pause":                {process.Options{Subject: "postgres", Pause: "coffee"}, `no such pause: "coffee"`},
		"a step before the first":      {process.Options{Subject: "postgres", Nth: -1}, "no step number -1"},
		"a writer that finds nothing":  {process.Options{Subject: "no server"}, "writer A is gone: exit status 1: process: open no server: no server at all"},
		"a writer that cannot stand":   {process.Options{Subject: "dies", Pause: process.StopTheWorld, At: computed}, "writer A is gone: exit status 1: child: world: "},
		"rounds below zero":            {process.Options{Subject: "postgres", Rounds: -1}, "-1 rounds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad.options.Conf = c.String()
			_, err := process.Examine(t, bad.options)
			require.ErrorContains(t, err, bad.text)
		})
	}
}
