package sqltext

import (
	"slices"
	"strings"
)

// reads are the command tags of PostgreSQL's statements that write nothing:
// manual, "Message Formats", CommandComplete.
var reads = []string{
	"SELECT", "SHOW", "SET", "RESET", "FETCH", "MOVE", "EXPLAIN", "VALUES", "LOCK TABLE", "DISCARD", "LISTEN", "UNLISTEN",
	"BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE",
	"PREPARE", "DEALLOCATE", "DECLARE CURSOR", "CLOSE CURSOR", "",
}

// Wrote reports whether a command tag of PostgreSQL is that of a write: none of
// a statement that only reads, and not "UPDATE 0". A SELECT counts as a read,
// also where it calls a function that writes or has a WITH that does.
func Wrote(tag string) bool {
	words := strings.TrimRight(tag, "0123456789 ")
	return !slices.Contains(reads, words) && !strings.HasSuffix(tag, " 0")
}
