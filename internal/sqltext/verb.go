// Package sqltext tells what an SQL statement does, as far as its words and its
// command tag go: for guards and drivers that report the steps of a simulation.
package sqltext

import (
	"regexp"
	"slices"
	"strings"
)

// lead is what may stand before a statement's first word: blanks, parentheses,
// comments. Comments that are nested, as PostgreSQL's may be, end too early.
var lead = regexp.MustCompile(`^(\s|\(|;|--[^\n]*(\n|$)|(?s:/\*.*?\*/))*`)

var (
	word    = regexp.MustCompile(`^[A-Za-z]+`)
	writing = regexp.MustCompile(`(?i)\b(INSERT|UPDATE|DELETE|MERGE|REPLACE)\b`)
	partly  = regexp.MustCompile(`(?i)\bTO\b`)
)

// Verb returns the first word of an SQL text in capitals, COMMIT for END, and
// ROLLBACK for ABORT, SAVEPOINT for what ends in one. It is empty for a text that
// is nothing but comments, as that of a ping.
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

// readers are the verbs of statements that write nothing, in any dialect.
var readers = []string{
	"SELECT", "SHOW", "SET", "RESET", "FETCH", "MOVE", "EXPLAIN", "VALUES", "TABLE", "LOCK", "DISCARD", "LISTEN", "UNLISTEN",
	"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE",
	"PREPARE", "DEALLOCATE", "DECLARE", "CLOSE", "PRAGMA", "DESCRIBE", "USE", "",
}

// Reads reports whether an SQL text is that of a statement that only reads, as
// far as its words tell: a function that it calls may write.
func Reads(sql string) bool {
	verb := Verb(sql)
	return slices.Contains(readers, verb) || verb == "WITH" && !writing.MatchString(sql)
}
