package pgadmit

import (
	_ "embed" // the statements
	"encoding/hex"
)

// The statements of Once, with the header comments of their files: see 00008_once.sql in
// package migrations.
var (
	//go:embed insert_unit.sql
	InsertUnitSQL string
	//go:embed set_result.sql
	SetResultSQL string
	//go:embed find_unit.sql
	FindUnitSQL string
)

// FirstResult returns the first result of a unit that exists, from the reply to
// InsertUnitSQL or FindUnitSQL. An empty result is nil. same is false if the unit has
// another fingerprint. The reply is hexadecimal: as a bytea it would depend on the session's
// bytea_output, where a driver gets it as text.
func FirstResult(reply string) (result []byte, same bool, err error) {
	found, err := hex.DecodeString(reply)
	if len(found) <= 1 || err != nil {
		return nil, len(found) == 1, err
	}
	return found[1:], true, nil
}
