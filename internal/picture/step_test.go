package picture_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/picture"
	"github.com/fencepost/fencepost/simulations/history"
)

// levels is the mark after each accepted op, found the slow way: by looking at
// all others.
func levels(ops []history.Op) (numbers []int64, falls int) {
	accepted := slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool {
		return op.Outcome != history.Accepted || op.Kind != history.Claim && op.Kind != history.Write
	})
	slices.SortStableFunc(accepted, func(a, b history.Op) int { return int(a.Ended - b.Ended) })
	level := int64(0)
	for _, op := range accepted {
		stale := slices.ContainsFunc(accepted, func(other history.Op) bool {
			return other.Number > op.Number && other.Ended < op.Began
		})
		switch {
		case op.Number > level:
			numbers = append(numbers, op.Number)
		case op.Number < level && stale:
			numbers = append(numbers, op.Number)
			falls++
		default:
			continue
		}
		level = op.Number
	}
	return numbers, falls
}

var climbs = regexp.MustCompile(`H([0-9.]+)V([0-9.]+)`)

// staircase reads the numbers off the picture: by the rows in the gutter.
func staircase(t *testing.T, root node) (numbers []string, falls int) {
	t.Helper()
	rows := map[float64]string{}
	for _, text := range root.class("level") {
		rows[text.number(t, "y")-4] = text.Text
	}
	marks := root.class("mark")
	for _, step := range climbs.FindAllStringSubmatch(marks[0].attr("d"), -1) {
		y, err := strconv.ParseFloat(step[2], 64)
		require.NoError(t, err)
		require.Contains(t, rows, y)
		numbers = append(numbers, rows[y])
	}
	for _, fall := range root.class("fall") {
		falls += len(regexp.MustCompile("M").FindAllString(fall.attr("d"), -1))
	}
	return numbers, falls
}

func TestTheStaircaseIsTheMark(t *testing.T) {
	t.Parallel()
	all := 0
	for seed := range uint64(60) {
		s := unguarded(t, seed)
		if seed%2 == 0 {
			s = guarded(t, seed)
		}
		overlap(s.History.Ops, int(seed))
		s.Violations = nil
		numbers, falls := levels(s.History.Ops)
		var wanted []string
		for _, number := range numbers {
			wanted = append(wanted, picture.Short(numbers[0], number))
		}
		seen, fell := staircase(t, svg(t, s))
		require.Equal(t, wanted, seen, seed)
		if falls > 0 {
			falls++ // and one in the legend
		}
		require.Equal(t, falls, fell, seed)
		all += falls
	}
	require.NotZero(t, all, "some mark falls")
}

// overlap has some writes take so long that others come in between.
func overlap(ops []history.Op, n int) {
	for i := n % 3; i+4 < len(ops); i += 5 {
		if ops[i].Kind == history.Write {
			ops[i].Ended = ops[i+3].Ended + 1
		}
	}
}

// What is under way at once may have come in either order. The picture takes
// the one in which nothing is wrong.
func TestWhatWasUnderWayAtOnceIsNoFall(t *testing.T) {
	t.Parallel()
	write := func(writer string, number int64, began, ended int) history.Op {
		return history.Op{
			Kind: history.Write, Writer: writer, Resource: resource, Outcome: history.Accepted, Number: number, Holder: writer,
			Began: time.Duration(began) * time.Millisecond, Ended: time.Duration(ended) * time.Millisecond,
		}
	}
	for name, c := range map[string]struct {
		small history.Op
		falls int
		after bool // the greater one
	}{
		"around it":        {write("A", 1, 0, 9), 0, false},
		"begun within it":  {write("A", 1, 3, 9), 0, false},
		"begun as it ends": {write("A", 1, 4, 9), 0, true},
		"after it":         {write("A", 1, 5, 9), 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			greater := write("B", 2, 2, 4)
			root := svg(t, picture.Scene{History: history.History{Ops: []history.Op{greater, c.small}}})
			_, falls := staircase(t, root)
			require.Equal(t, c.falls, falls, "in the picture and in the legend")
			x := map[string]float64{}
			for said, groups := range told(root) {
				_, who, _ := strings.Cut(said, ", ")
				x[who[:1]], _ = groups[0].class("glyph")[0].begin(t)
			}
			if !c.after {
				require.InDelta(t, x["B"], x["A"], 0.01, "it came just before the greater one")
			} else {
				require.Greater(t, x["A"], x["B"])
			}
		})
	}
}
