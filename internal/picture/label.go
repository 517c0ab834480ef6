package picture

import (
	"cmp"
	"slices"
	"time"
)

// label is text at an instant, in a row. Labels of a row never overlap.
type label struct {
	row   string
	at    int // index of the instant
	until int // if not 0, the instant before which it ends
	rank  int // 0 is always shown; others make room, the last first
	text  string
	class string
	hue   int // 0 is none, and others one more than a lane's
	dx, y float64
}

// leastRank is that of what is left out first.
const leastRank = 3

// space is between two labels.
const space = 7.0

func (l label) size() float64 {
	if l.class == "token" {
		return 13 // it is bold
	}
	return 11
}

func (l label) long() float64 { return l.dx + wide(l.text, l.size()) }

// labels of a figure.
type labels []label

// add makes one of two labels at the same place.
func (all *labels) add(l label) {
	if l.text == "" {
		return
	}
	l.text = visible(l.text)
	for i := range *all {
		other := &(*all)[i]
		if other.row != l.row || other.at != l.at {
			continue
		}
		if other.text != l.text {
			other.text += ", " + l.text
		}
		other.rank = min(other.rank, l.rank)
		return
	}
	*all = append(*all, l)
}

// fitting leaves out what there is no room for, the labels that matter least
// first, and of those the ones that are far from the focus.
func (all labels) fitting(at []time.Duration, width float64, focus int) labels {
	ranked := slices.Clone(all)
	slices.SortStableFunc(ranked, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(abs(a.at-focus), abs(b.at-focus)))
	})
	var kept labels
	for _, l := range ranked {
		if more := append(kept, l); l.rank == 0 || shortest(at, more.rods(len(at)-1)) <= width {
			kept = more
		}
	}
	return kept
}

// rods keep the labels of each row apart, and the last ones inside.
func (all labels) rods(end int) []rod {
	rows := slices.Clone(all)
	slices.SortStableFunc(rows, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.at, b.at))
	})
	var rods []rod
	for i, l := range rows {
		to, long := end, l.long()
		if i+1 < len(rows) && rows[i+1].row == l.row {
			to, long = rows[i+1].at, long+space-min(rows[i+1].dx, 0)
		}
		if to > l.at {
			rods = append(rods, rod{l.at, to, long})
		}
		if l.until > l.at {
			rods = append(rods, rod{l.at, l.until, l.long() + space})
		}
	}
	return rods
}
