package pgadmit

import _ "embed" // the statements

// The statements of Once, with the header comments of their files: see 00009_once.sql in
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
// another fingerprint.
func FirstResult(reply []byte) (result []byte, same bool) {
	if len(reply) <= 1 {
		return nil, len(reply) == 1
	}
	return reply[1:], true
}
