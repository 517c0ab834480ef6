// Package sqltext classifies an SQL statement by its first words or its command tag, for
// guards and drivers that report the steps of a simulation.
package sqltext

import (
	"regexp"
	"slices"
	"strings"
)

// lead matches what may stand before a statement's first word: blanks, parentheses,
// comments. Nested comments, which PostgreSQL allows, are cut off too early.
var lead = regexp.MustCompile(`^(\s|\(|;|--[^\n]*(\n|$)|(?s:/\*.*?\*/))*`)

var (
	word    = regexp.MustCompile(`^[A-Za-z]+`)
	writing = regexp.MustCompile(`(?i)\b(INSERT|UPDATE|DELETE|MERGE|REPLACE)\b`)
	partly  = regexp.MustCompile(`(?i)\bTO\b`)
)

// Verb returns the first word of an SQL text in capitals, with three exceptions: COMMIT
// for END, ROLLBACK for ABORT, and SAVEPOINT for ROLLBACK TO a savepoint. It returns ""
// for a text of comments only, such as a ping.
func Verb(sql string) string {
	rest := sql[len(lead.FindString(sql)):]
	first := strings.ToUpper(word.FindString(rest))
	switch first {
	case "END":
		return "COMMIT"
	case "ABORT":
		return "ROLLBACK"
	case "ROLLBACK":
		if partly.MatchString(rest) {
			return "SAVEPOINT"
		}
	case "START":
		return "BEGIN"
	}
	return first
}

// RollsBackTo reports whether an SQL text is a ROLLBACK TO a savepoint.
func RollsBackTo(sql string) bool {
	rest := sql[len(lead.FindString(sql)):]
	return strings.EqualFold(word.FindString(rest), "ROLLBACK") && partly.MatchString(rest)
}

// readers are the verbs of statements that write nothing, in any dialect.
var readers = []string{
	"SELECT", "SHOW", "SET", "RESET", "FETCH", "MOVE", "EXPLAIN", "VALUES", "TABLE", "LOCK", "DISCARD", "LISTEN", "UNLISTEN",
	"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE",
	"PREPARE", "DEALLOCATE", "DECLARE", "CLOSE", "PRAGMA", "DESCRIBE", "USE", "",
}

// Reads reports whether an SQL text is a statement that only reads, judged by its words:
// a function that it calls may write.
func Reads(sql string) bool {
	verb := Verb(sql)
	return slices.Contains(readers, verb) || verb == "WITH" && !WritesInWith(sql)
}

// Writes reports whether an SQL text writes rows, judged by its words. It returns false
// for the name of a prepared statement, and for a SELECT whose function writes.
func Writes(sql string) bool {
	verb := Verb(sql)
	return slices.Contains(writers, verb) || WritesInWith(sql)
}

// WritesInWith reports whether an SQL text is a WITH that writes. PostgreSQL's command tag
// may be that of the SELECT after it.
func WritesInWith(sql string) bool { return Verb(sql) == "WITH" && writing.MatchString(sql) }

// writers are the verbs of statements that write rows.
var writers = []string{"INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "COPY", "TRUNCATE", "CALL"}

// Wrote reports whether a command tag of PostgreSQL means a write. Its first word is the
// statement's verb (manual, "Message Formats", CommandComplete). It returns false for tags
// of statements that only read, and for tags with a count of 0, as in "UPDATE 0". A SELECT
// counts as a read, even if it calls a function that writes or has a WITH that does.
func Wrote(tag string) bool { return !Reads(tag) && !strings.HasSuffix(tag, " 0") }
