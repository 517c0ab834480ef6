package picture_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/picture"
	"github.com/fencepost/fencepost/simulations/history"
)

// at is an op of A, in milliseconds.
func at(kind history.Kind, outcome history.Outcome, began, ended, until int) history.Op {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	op := history.Op{Kind: kind, Writer: "A", Resource: resource, Outcome: outcome, Began: ms(began), Ended: ms(ended), Until: ms(until)}
	if kind != history.Fault {
		op.Number, op.Holder = 7, "A:1"
	}
	return op
}

// axis reads the times off the picture.
func axis(t *testing.T, root node) map[string]float64 {
	t.Helper()
	places := map[string]float64{}
	for _, text := range root.class("time") {
		places[text.Text] = text.number(t, "x")
	}
	return places
}

func TestALeaseIsDrawnForAsLongAsItIsHeld(t *testing.T) {
	t.Parallel()
	granted := at(history.Acquire, history.Accepted, 0, 10, 50)
	last := at(history.Write, history.Accepted, 80, 90, 0)
	for name, c := range map[string]struct {
		then  history.Op
		until string // by the axis
	}{
		"until it runs out":            {at(history.Claim, history.Accepted, 20, 30, 0), "50.00"},
		"longer where it is renewed":   {at(history.Renew, history.Accepted, 20, 30, 70), "70.00"},
		"until it is given back":       {at(history.Release, history.Accepted, 20, 30, 0), "30.00"},
		"until it may be given back":   {at(history.Release, history.Unknown, 20, 30, 0), "20.00"},
		"until a renewal is refused":   {at(history.Renew, history.Refused, 20, 30, 0), "30.00"},
		"beyond the end of the scene":  {at(history.Renew, history.Accepted, 20, 30, 500), ""},
		"as before, if nobody answers": {at(history.Renew, history.Unknown, 20, 30, 0), "50.00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := svg(t, picture.Scene{History: history.History{Ops: []history.Op{granted, c.then, last}}})
			times := axis(t, root)
			lease := root.class("lease")[0]
			from, width := lease.number(t, "x"), lease.number(t, "width")
			require.InDelta(t, times["10.00"], from, 0.11)
			if c.until == "" {
				require.Greater(t, from+width, times["90.00"])
				return
			}
			require.Contains(t, times, c.until)
			require.InDelta(t, times[c.until], from+width, 0.21)
		})
	}
}

var hatched = regexp.MustCompile(`^translate\(([0-9.]+) [0-9.]+\)`)

func TestAFaultIsHatchedFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	fault := at(history.Fault, history.Accepted, 20, 60, 0)
	fault.Note = "cut off from the lock"
	ops := []history.Op{at(history.Acquire, history.Accepted, 0, 10, 50), fault, at(history.Write, history.Unknown, 80, 90, 0)}
	root := svg(t, picture.Scene{History: history.History{Ops: ops}})
	times := axis(t, root)
	hatch := root.class("hatch")[0]
	var long float64
	_, err := fmt.Sscanf(hatch.attr("d"), "M0 0h%f", &long)
	require.NoError(t, err)
	x, err := strconv.ParseFloat(hatched.FindStringSubmatch(hatch.attr("transform"))[1], 64)
	require.NoError(t, err)
	slant := x - times["20.00"]
	require.Less(t, slant, 8.0, "it is set aslant")
	require.InDelta(t, times["60.00"]-times["20.00"], long+2*slant, 0.5)
	require.Equal(t, "cut off from the lock", root.class("fault")[0].Text)
	fault.Ended = fault.Began
	ops[1] = fault
	root = svg(t, picture.Scene{History: history.History{Ops: ops}})
	require.Len(t, root.class("shock"), 1, "a moment")
	require.Len(t, root.class("hatch"), 1, "of the legend")
}

func TestTheTimeOfTheViolationIsRed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := unguarded(t, seed)
		if len(s.Violations) == 0 {
			continue
		}
		root := svg(t, s)
		red := root.all(func(n node) bool { return n.is("time") && n.is("bad") })
		require.Len(t, red, 1)
		line, _ := root.class("broken")[0].begin(t)
		require.InDelta(t, line, red[0].number(t, "x"), 0.01)
	}
}
