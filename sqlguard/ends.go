package sqlguard

import (
	"fmt"
	"slices"
	"strings"
)

// refuseEnd refuses what begins or ends a transaction: what came behind a COMMIT
// would go on without the admission, and a ROLLBACK would be told as applied. In
// the simple protocol one string can hide another statement: see [Guard.On].
func refuseEnd(sql string) error {
	words := strings.Fields(strings.ToUpper(sql))
	switch verb := strings.ToUpper(firstWord(sql)); {
	case verb == "COMMIT", verb == "END", verb == "ABORT", verb == "BEGIN", verb == "START",
		verb == "ROLLBACK" && !slices.Contains(words, "TO"),
		verb == "PREPARE" && slices.Contains(words, "TRANSACTION"):
		return fmt.Errorf("sqlguard: a guarded statement is a transaction already: %s is not for it", verb)
	}
	return nil
}
