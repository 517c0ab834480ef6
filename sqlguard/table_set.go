package sqlguard

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Set is what a write sets: columns, and the values they get.
//
//	sqlguard.Set{{"balance", 70}, {"changed_at", time.Now()}}
//
// The first of each pair is the column's name as it is in the database,
// unquoted, a string; the second is any value that pgx takes for that column.
// A column given twice, the key, and the columns of the mark are errors. The
// text of a statement is kept for each list of columns: name them in one order.
type Set [][2]any

// maxIdent is the length, in bytes, at which PostgreSQL cuts a name.
const maxIdent = 63

var errNoName = errors.New("sqlguard: Table has no Name")

// checkNames says which name the server would not take as it is, but change: a
// column that was let through here under one name could be set under another.
func (t *Table) checkNames(set Set) error {
	if len(t.Name) == 0 {
		return errNoName
	}
	names := append([]string{cmp.Or(t.Key, defaultKey), cmp.Or(t.Number, defaultNumber), cmp.Or(t.Holder, defaultHolder)}, t.Name...)
	for _, name := range names {
		if err := checkIdent(name); err != nil {
			return err
		}
	}
	seen := names[:3:3]
	if seen[0] == seen[1] || seen[0] == seen[2] || seen[1] == seen[2] {
		return fmt.Errorf("sqlguard: Table %s needs three columns: Key %q, Number %q, Holder %q", t.Name.Sanitize(), seen[0], seen[1], seen[2])
	}
	for i, c := range set {
		name, ok := c[0].(string)
		if !ok {
			return fmt.Errorf("sqlguard: Set: the name of a column is a string, not %T", c[0])
		}
		if err := checkIdent(name); err != nil {
			return err
		}
		for j, other := range seen {
			switch {
			case name == other && j < 3:
				return fmt.Errorf("sqlguard: Set: column %q is the Table's own: the key and the mark are not to be set", name)
			case name == other:
				return fmt.Errorf("sqlguard: Set: column %q stands there twice, again at %d", name, i)
			}
		}
		seen = append(seen, name)
	}
	return nil
}

func checkIdent(name string) error {
	switch {
	case name == "":
		return errors.New("sqlguard: the name of a table or column is empty")
	case len(name) > maxIdent:
		return fmt.Errorf("sqlguard: the name %q has more than %d bytes, PostgreSQL would cut it", name, maxIdent)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("sqlguard: the name %q has a zero byte", name)
	}
	return nil
}
