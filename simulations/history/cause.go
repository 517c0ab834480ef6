package history

import (
	"slices"
	"sort"
	"time"
)

// causes finds for a refused token the least number that can have raised the
// mark above it.
type causes struct {
	numbers []int64         // in their order
	first   []*Op           // of each number, the one that began first
	other   []*Op           // of each number, the first from another holder
	tree    []time.Duration // least Began of first, in a tree: 1 is the root
	size    int
}

func newCauses(ops []*Op) *causes {
	ops = sorted(ops, byBegan)
	slices.SortStableFunc(ops, byNumber)
	c := &causes{}
	for _, op := range ops {
		last := len(c.numbers) - 1
		if last < 0 || c.numbers[last] != op.Number {
			c.numbers = append(c.numbers, op.Number)
			c.first = append(c.first, op)
			c.other = append(c.other, nil)
		} else if c.other[last] == nil && op.Holder != c.first[last].Holder {
			c.other[last] = op
		}
	}
	c.grow()
	return c
}

func (c *causes) grow() {
	for c.size = 1; c.size < len(c.first); c.size *= 2 {
	}
	c.tree = make([]time.Duration, 2*c.size)
	for i := range c.size {
		c.tree[c.size+i] = never
		if i < len(c.first) {
			c.tree[c.size+i] = c.first[i].Began
		}
	}
	for i := c.size - 1; i > 0; i-- {
		c.tree[i] = min(c.tree[2*i], c.tree[2*i+1])
	}
}

// of returns what can have refused op: begun before op ended, of the same
// number and another holder, or of the least greater number. It is nil if there
// is nothing.
func (c *causes) of(op *Op) *Op {
	at := sort.Search(len(c.numbers), func(i int) bool { return c.numbers[i] >= op.Number })
	if at < len(c.numbers) && c.numbers[at] == op.Number {
		for _, same := range []*Op{c.first[at], c.other[at]} {
			if same != nil && same.Holder != op.Holder && same.Began <= op.Ended {
				return same
			}
		}
		at++
	}
	return c.next(at, op.Ended)
}

// next returns the first op from number at on that began by ended.
func (c *causes) next(at int, ended time.Duration) *Op {
	if at >= len(c.first) {
		return nil
	}
	node := c.size + at
	for c.tree[node] > ended {
		for node&1 == 1 { // the right child: its parent has nothing more
			node /= 2
		}
		if node == 0 {
			return nil
		}
		node++ // to the right sibling
	}
	for node < c.size {
		if node *= 2; c.tree[node] > ended {
			node++
		}
	}
	return c.first[node-c.size]
}
