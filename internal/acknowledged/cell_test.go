package acknowledged_test

import (
	"fmt"
	"slices"
	"strings"
)

// cell is a way to write, under the locks of an issuer. It has rows of its own.
type cell struct {
	Issuer, Way string
	rows        int
}

func cells(rows int) (all []cell) {
	for issuer := range issuers {
		for way := range ways {
			all = append(all, cell{issuer, way, rows})
		}
	}
	slices.SortFunc(all, func(a, b cell) int {
		return strings.Compare(a.Way+"/"+a.Issuer, b.Way+"/"+b.Issuer)
	})
	return all
}

// keys are those of the cell's rows.
func (c cell) keys() (keys []string) {
	for n := range c.rows {
		keys = append(keys, fmt.Sprintf("%s/%s/%d", c.Way, c.Issuer, n))
	}
	return keys
}

// kind is what the resource of each row begins with.
const kind = "account/"

func resource(key string) string { return kind + key }
