package sqlguard

import (
	"cmp"

	"github.com/jackc/pgx/v5"
)

const (
	defaultKey    = "id"
	defaultNumber = "last_token"
	defaultHolder = "last_holder"
)

// columns are those that a fence is about, quoted, behind an alias.
type columns struct{ key, number, holder string }

func (t *Table) columns(alias string) columns {
	if alias != "" {
		alias = ident(alias) + "."
	}
	return columns{
		key:    alias + ident(cmp.Or(t.Key, defaultKey)),
		number: alias + ident(cmp.Or(t.Number, defaultNumber)),
		holder: alias + ident(cmp.Or(t.Holder, defaultHolder)),
	}
}

// rule says which marks of a row a statement lets pass.
type rule uint8

const (
	rowRule    rule = iota // those that admit the token: 0 and NULL are none
	markedRule             // and none: the marks table was asked
	noRule                 // all: observe-only
)

// admits is the rule of guard.Mark in SQL. Where nobody has made the row's mark
// yet (0, or NULL in a column that was there before), the marks table may know
// better: the row was inserted by another door, or has carried no mark for long.
// Holders are compared byte by byte, whatever the column's collation.
func (c columns) admits(r rule, p placeholders) string {
	number, holder := p.number+"::bigint", p.holder+"::pg_catalog.text"
	less := c.number + " > 0 AND " + c.number + " < " + number
	if r != rowRule {
		less = "coalesce(" + c.number + ", 0) < " + number
	}
	return "(" + less + " OR " + c.number + " = " + number + " AND " + c.holder + `::pg_catalog.text COLLATE "C" = ` + holder + ")"
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }
