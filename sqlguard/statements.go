package sqlguard

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// defaultSchema is where package migrations puts the tables and functions
// unless told otherwise.
const defaultSchema = "fencepost"

var (
	//go:embed admit.sql
	admitSQL string
	//go:embed admit_bounded.sql
	admitBoundedSQL string
	//go:embed admit_durable.sql
	admitDurableSQL string
	//go:embed observe.sql
	observeSQL string
	//go:embed mint.sql
	mintSQL string
	//go:embed evict.sql
	evictSQL string
)

// statements are the texts for one schema.
type statements struct {
	schema                                                  string
	admit, admitBounded, admitDurable, observe, mint, evict string
}

// prepared has the texts of every schema that was used: a text that is built
// anew for each call would cost more than the call saves.
var prepared sync.Map // from schema to *statements

func statementsOf(schema string) *statements {
	if schema == "" {
		schema = defaultSchema
	}
	if s, ok := prepared.Load(schema); ok {
		return s.(*statements)
	}
	// A schema's name cannot be a parameter. Quoted, it can be anything.
	in := strings.NewReplacer(`"fencepost".`, pgx.Identifier{schema}.Sanitize()+".")
	text := func(file string) string {
		start := strings.Index(file, "SELECT") // the header is for readers of the file
		return in.Replace(strings.TrimSpace(file[start:]))
	}
	s := &statements{
		schema: schema,
		admit:  text(admitSQL), admitBounded: text(admitBoundedSQL), admitDurable: text(admitDurableSQL),
		observe: text(observeSQL), mint: text(mintSQL), evict: text(evictSQL),
	}
	prepared.Store(schema, s)
	return s
}
