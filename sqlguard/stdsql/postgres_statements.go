package stdsql

import (
	"strings"
	"sync"

	_ "embed"
)

// defaultSchema is where package migrations puts the tables and functions
// unless told otherwise.
const defaultSchema = "fencepost"

var (
	//go:embed postgres_admit.sql
	postgresAdmit string
	//go:embed postgres_claim.sql
	postgresClaim string
	//go:embed postgres_observe.sql
	postgresObserve string
	//go:embed postgres_evict.sql
	postgresEvict string
)

// statements are the texts for one schema.
type statements struct {
	schema                       string
	admit, claim, observe, evict string
}

// prepared has the texts of every schema that was used.
var prepared sync.Map // from schema to *statements

func statementsOf(schema string) *statements {
	if schema == "" {
		schema = defaultSchema
	}
	if s, ok := prepared.Load(schema); ok {
		return s.(*statements)
	}
	// A schema's name cannot be a parameter. Quoted, it can be anything but a
	// zero byte, which no name has.
	name := strings.ReplaceAll(strings.ReplaceAll(schema, "\x00", ""), `"`, `""`)
	in := strings.NewReplacer(`"fencepost".`, `"`+name+`".`)
	text := func(file string) string { return in.Replace(statement(file)) }
	s := &statements{
		schema: schema,
		admit:  text(postgresAdmit), claim: text(postgresClaim), observe: text(postgresObserve), evict: text(postgresEvict),
	}
	prepared.Store(schema, s)
	return s
}
