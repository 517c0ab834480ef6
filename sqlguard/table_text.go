package sqlguard

import (
	"cmp"
	_ "embed"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"
)

var (
	//go:embed table_update.sql
	tableUpdateSQL string
	//go:embed table_insert.sql
	tableInsertSQL string
	//go:embed table_upsert.sql
	tableUpsertSQL string
	//go:embed table_delete.sql
	tableDeleteSQL string
	//go:embed table_check.sql
	tableCheckSQL string
	//go:embed table_mark.sql
	tableMarkSQL string
	//go:embed table_explain.sql
	tableExplainSQL string
)

// verb is what a statement does to a row.
type verb uint8

const (
	verbUpdate verb = iota
	verbInsert
	verbUpsert
	verbDelete
	verbCheck
	verbMark
	verbExplain
)

var verbSQL = [...]*string{&tableUpdateSQL, &tableInsertSQL, &tableUpsertSQL, &tableDeleteSQL, &tableCheckSQL, &tableMarkSQL, &tableExplainSQL}

// mostTexts is how many texts are kept. A program has a few; one that makes up
// its columns as it goes must not fill the memory with them.
const mostTexts = 1024

var (
	tableTexts  = map[string]string{}
	tableTextMu sync.RWMutex
)

// sql returns the text of a statement that sets the columns of set. What it
// looks for is put together on the stack: a hit allocates nothing.
func (t *Table) sql(v verb, set Set, r rule) (string, error) {
	var room [256]byte
	key := append(room[:0], byte(v), byte(r))
	add := func(name string) { key = append(binary.AppendUvarint(key, uint64(len(name))), name...) }
	key = binary.AppendUvarint(key, uint64(len(t.Name)))
	for _, part := range t.Name {
		add(part)
	}
	for _, name := range [...]string{t.Guard.Schema, t.Key, t.Number, t.Holder} {
		add(name)
	}
	for _, c := range set {
		name, _ := c[0].(string) // another type is found where the text is built, which is not kept then
		add(name)
	}
	tableTextMu.RLock()
	text, known := tableTexts[string(key)]
	tableTextMu.RUnlock()
	if known {
		return text, nil
	}
	if err := t.checkNames(set); err != nil {
		return "", err
	}
	text = t.build(v, set, r)
	tableTextMu.Lock()
	defer tableTextMu.Unlock()
	if len(tableTexts) < mostTexts {
		tableTexts[string(key)] = text
	}
	return text, nil
}

// build puts the names into the file, all in one pass: what a name says is not
// searched again.
func (t *Table) build(v verb, set Set, r rule) string {
	f := Fence{table: t, rule: r}
	var names, values, sets, excluded strings.Builder
	for i, c := range set {
		column, value := ident(c[0].(string)), "$"+strconv.Itoa(5+i)
		names.WriteString(", " + column)
		values.WriteString(", " + value)
		sets.WriteString(column + " = " + value + ", ")
		excluded.WriteString(column + " = excluded." + column + ", ")
	}
	bare, got := t.columns(""), `t."number"::bigint, t."holder"::pg_catalog.text`
	if r == noRule { // whatever mark it has
		got = "$3, $4"
	}
	text := strings.ReplaceAll(*verbSQL[v], "/* got */", got)
	for strings.HasPrefix(text, "--") { // the header is for readers of the file
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.NewReplacer(
		`"fencepost".`, ident(cmp.Or(t.Guard.Schema, defaultSchema))+".",
		`"table"`, t.Name.Sanitize(), `"key"`, bare.key, `"number"`, bare.number, `"holder"`, bare.holder,
		`/* names */`, names.String(), `/* values */`, values.String(),
		`/* set */`, sets.String(), `/* excluded */`, excluded.String(),
		`/* mark */`, f.Set("t", 1), `/* own */`, f.Where("t", 1), `/* admits */`, t.columns("t").admits(markedRule, placeholdersFrom(1)),
	).Replace(strings.TrimSpace(text))
}
