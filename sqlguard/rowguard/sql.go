package rowguard

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/pgwrite"
)

//go:embed *.sql
var files embed.FS

// verb is the kind of a statement on a row: the name of its file.
type verb string

const (
	verbUpdate  verb = "update.sql"
	verbInsert  verb = "insert.sql"
	verbUpsert  verb = "upsert.sql"
	verbDelete  verb = "delete.sql"
	verbCheck   verb = "check.sql"
	verbMark    verb = "mark.sql"
	verbExplain verb = "explain.sql"
)

// maxTexts bounds how many texts are cached. A program normally has a few. The bound
// keeps a program that generates column names from filling the memory.
const maxTexts = 1024

var (
	tableTexts  = map[string]string{}
	tableTextMu sync.RWMutex
)

// sql returns the text of a statement that sets the columns.
func (t *Table) sql(v verb, columns []string, r rule) (string, error) {
	key := fmt.Sprintf("%s %d %q %q %q", v, r, t.Name, []string{t.Guard.Schema, t.Key, t.Number, t.Holder}, columns)
	tableTextMu.RLock()
	text, known := tableTexts[key]
	tableTextMu.RUnlock()
	if known {
		return text, nil
	}
	file, err := files.ReadFile(string(v))
	if err == nil {
		err = t.checkNames(columns)
	}
	if err != nil {
		return "", err
	}
	text = t.build(string(file), columns, r)
	tableTextMu.Lock()
	defer tableTextMu.Unlock()
	if len(tableTexts) < maxTexts {
		tableTexts[key] = text
	}
	return text, nil
}

// build replaces the placeholders of a file in one pass, so that a replacement is not
// searched again.
func (t *Table) build(file string, columns []string, r rule) string {
	f := Fence{table: t, rule: r}
	var names, values, sets, excluded strings.Builder
	for i, name := range columns {
		column, value := ident(name), "$"+strconv.Itoa(5+i)
		names.WriteString(", " + column)
		values.WriteString(", " + value)
		sets.WriteString(column + " = " + value + ", ")
		excluded.WriteString(column + " = excluded." + column + ", ")
	}
	plain, got := t.columns(""), `t."number"::bigint, t."holder"::pg_catalog.text`
	if r == noRule { // any mark is accepted
		got = "$3, $4"
	}
	text := strings.ReplaceAll(file, "/* got */", got)
	for strings.HasPrefix(text, "--") { // the header is for readers of the file
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.NewReplacer(
		`"fencepost".`, ident(cmp.Or(t.Guard.Schema, pgwrite.DefaultSchema))+".",
		`'"table"'`, literal(t.Name.Sanitize()), `'"key"'`, literal(cmp.Or(t.Key, defaultKey)),
		`"table"`, t.Name.Sanitize(), `"key"`, plain.key, `"number"`, plain.number, `"holder"`, plain.holder,
		`/* names */`, names.String(), `/* values */`, values.String(),
		`/* set */`, sets.String(), `/* excluded */`, excluded.String(),
		`/* mark */`, f.set("t", placeholdersFrom(1)), `/* own */`, f.where("t", placeholdersFrom(1)), `/* admits */`, t.columns("t").admits(markedRule, placeholdersFrom(1)),
	).Replace(strings.TrimSpace(text))
}

const (
	defaultKey    = "id"
	defaultNumber = "last_token"
	defaultHolder = "last_holder"
)

// columns are the quoted names of the columns that a fence uses, qualified by an alias if
// there is one.
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

// rule is which marks of a row let a statement pass. It decides how the statement is sent.
type rule uint8

const (
	rowRule    rule = iota // marks that admit the token, but not 0 and NULL
	markedRule             // also no mark: the marks table has admitted the token
	noRule                 // any mark: report-only
)

// admits returns the rule of guard.Mark in SQL. A row without a mark (0, or NULL in a
// column that existed before) may still have one in the marks table, for example if it
// was inserted by another path. So rowRule does not match such a row. Holders are
// compared byte by byte, whatever the column's collation.
func (c columns) admits(r rule, p placeholders) string {
	number, holder := p.number+"::bigint", p.holder+"::pg_catalog.text"
	less := c.number + " > 0 AND " + c.number + " < " + number
	if r != rowRule {
		less = "coalesce(" + c.number + ", 0) < " + number
	}
	return "(" + less + " OR " + c.number + " = " + number + " AND " + c.holder + `::pg_catalog.text COLLATE "C" = ` + holder + ")"
}

// literal returns text as a constant, whatever standard_conforming_strings is.
func literal(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

// maxIdent is the length in bytes to which PostgreSQL truncates a name.
const maxIdent = 63

var errNoName = errors.New("rowguard: Table has no Name")

// checkNames returns an error for a name that the server would change: a column that is
// allowed here under one name could be set under another.
func (t *Table) checkNames(columns []string) error {
	if len(t.Name) == 0 {
		return errNoName
	}
	names := append([]string{cmp.Or(t.Key, defaultKey), cmp.Or(t.Number, defaultNumber), cmp.Or(t.Holder, defaultHolder)}, t.Name...)
	for _, name := range names {
		if err := checkIdent(name); err != nil {
			return err
		}
	}
	own := names[:3]
	if own[0] == own[1] || own[0] == own[2] || own[1] == own[2] {
		return fmt.Errorf("rowguard: Table %s needs three columns: Key %q, Number %q, Holder %q", t.Name.Sanitize(), own[0], own[1], own[2])
	}
	for _, column := range columns {
		if err := checkIdent(column); err != nil {
			return err
		}
		if slices.Contains(own, column) {
			return fmt.Errorf("rowguard: Set: column %q is the Table's key or mark, which cannot be set", column)
		}
	}
	return nil
}

func checkIdent(name string) error {
	switch {
	case name == "":
		return errors.New("rowguard: the name of a table or column is empty")
	case len(name) > maxIdent:
		return fmt.Errorf("rowguard: the name %q has more than %d bytes, PostgreSQL would cut it", name, maxIdent)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("rowguard: the name %q has a zero byte", name)
	}
	return nil
}
