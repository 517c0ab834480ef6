package sqlguard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgwrite"
)

var (
	errSeveral    = errors.New("sqlguard: the string has several statements, a guarded call takes one")
	errIncomplete = errors.New("sqlguard: the statement ends inside a string, a quoted name, a comment or parentheses")
)

// refuseTxControl refuses three kinds of strings:
//
//   - what begins or ends a transaction: a statement after a COMMIT would run without the
//     admission, and a ROLLBACK would be reported as applied
//   - several statements: the simple protocol runs all of them
//   - an incomplete statement: the next statement of the batch would be parsed as its
//     continuation
func refuseTxControl(sql string) error {
	s := parse(sql)
	switch {
	case s.incomplete:
		return errIncomplete
	case s.statements > 1:
		return errSeveral
	case s.endsTransaction():
		return fmt.Errorf("sqlguard: a guarded statement already runs in a transaction: %s is not allowed", strings.ToUpper(s.words[0]))
	}
	return nil
}

// guardedStatement returns a statement for the body of a batch.
func guardedStatement(sql string, args []any) pgwrite.Statement {
	return pgwrite.Statement{SQL: withResult(sql), Args: refuseRewritten(args)}
}

// withResult returns sql, or a query without rows if sql is an empty statement. In the
// simple protocol an empty statement has no result, and the result of the next one would
// be read in its place.
func withResult(sql string) string {
	if sql == "" || !isWordStart(sql[0]) && parse(sql).statements == 0 {
		return "SELECT WHERE false"
	}
	return sql
}

// refuseRewritten applies refuseTxControl to the output of a QueryRewriter of the
// caller's own. pgx's own rewriters keep the verb and add no statement.
func refuseRewritten(args []any) []any {
	if len(args) == 0 {
		return args
	}
	switch own := args[0].(type) {
	case pgx.NamedArgs, pgx.StrictNamedArgs:
	case pgx.QueryRewriter:
		return append([]any{checkedRewriter{own}}, args[1:]...)
	}
	return args
}

type checkedRewriter struct{ own pgx.QueryRewriter }

func (r checkedRewriter) RewriteQuery(ctx context.Context, conn *pgx.Conn, sql string, args []any) (string, []any, error) {
	sql, args, err := r.own.RewriteQuery(ctx, conn, sql, args)
	if err == nil {
		err = refuseTxControl(sql)
	}
	return sql, args, err
}

// tagEndsTx reports whether tag, the command tag of sql, shows that the transaction has
// ended. A prepared statement can do that, and its name does not show it.
func tagEndsTx(tag, sql string) bool {
	switch tag {
	case "COMMIT", "PREPARE TRANSACTION":
		return true
	case "ROLLBACK": // ROLLBACK TO has the same tag
		s := parse(sql)
		return !strings.EqualFold(s.words[0], "ROLLBACK")
	}
	return false
}

// errTxEnded is returned if the body has ended its own transaction: what came before may
// be committed, and what came after ran without the admission.
var errTxEnded error = &pgwrite.OutcomeError{Outcome: guard.ErrUnknown, Err: errors.New("sqlguard: a statement ended the guarded transaction")}

// checkTag returns errTxEnded if tag shows that the transaction has ended, else err.
func checkTag(tag pgconn.CommandTag, sql string, err error) error {
	if tagEndsTx(tag.String(), sql) {
		return errTxEnded
	}
	return err
}

// cannotCommit reports whether a statement is of a kind that cannot commit: a query, with
// all that it calls, or a change of rows.
func cannotCommit(sql string) bool {
	// sql may be the name of a prepared statement, and the name of a prepared CALL could
	// begin like a query: "delete old rows". Few queries contain none of these
	// characters.
	if !strings.ContainsAny(sql, "=(*,$") {
		return false
	}
	verb := parse(sql).words[0]
	for _, inTx := range [...]string{"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE"} {
		if strings.EqualFold(verb, inTx) {
			return true
		}
	}
	return false
}

// parsed is the structure of an SQL string.
type parsed struct {
	statements int       // without empty ones
	words      [3]string // the first tokens of the first statement, after opening parentheses
	incomplete bool      // the string ends inside a token, or inside parentheses
}

// endsTransaction reports whether the first statement begins or ends a
// transaction. ROLLBACK TO does not.
func (p parsed) endsTransaction() bool {
	verb, next := p.words[0], p.words[1]
	for _, end := range [...]string{"COMMIT", "END", "ABORT", "BEGIN", "START"} {
		if strings.EqualFold(verb, end) {
			return true
		}
	}
	switch {
	case strings.EqualFold(verb, "ROLLBACK"):
		if strings.EqualFold(next, "WORK") || strings.EqualFold(next, "TRANSACTION") {
			next = p.words[2]
		}
		return !strings.EqualFold(next, "TO")
	case strings.EqualFold(verb, "PREPARE"):
		return strings.EqualFold(next, "TRANSACTION")
	}
	return false
}

// parse splits at semicolons outside parentheses. Semicolons inside parentheses separate
// the actions of a CREATE RULE, which is one statement. A function body in BEGIN ATOMIC
// counts as several: only the server's grammar distinguishes it from a function named
// "begin".
func parse(sql string) (p parsed) {
	l := lexer{rest: sql}
	depth, tokens := 0, 0 // of the current statement
	for {
		token := l.next()
		switch token {
		case "":
			p.incomplete = l.cut || depth > 0
			return p
		case ";":
			if depth == 0 {
				tokens = 0
				continue
			}
		case "(":
			depth++
			if tokens == 0 {
				continue
			}
		case ")":
			depth = max(depth-1, 0)
		}
		if tokens == 0 {
			p.statements++
		}
		if p.statements == 1 && tokens < len(p.words) {
			p.words[tokens] = token
		}
		tokens++
	}
}

// lexer reads tokens as PostgreSQL's scan.l does under standard_conforming_strings = on.
// pgx refuses "off" in the simple protocol. In the extended protocol the server refuses
// several statements, so only the first word matters.
type lexer struct {
	rest string
	cut  bool // the last token has no end
}

const quoted = "''" // the token that stands for a string or a quoted name

// next returns a word as written, quoted for a string or a quoted name, one byte of
// anything else, or "" at the end.
func (l *lexer) next() string {
	l.skipBlank()
	if l.rest == "" {
		return ""
	}
	switch c := l.rest[0]; {
	case isWordStart(c):
		return l.word()
	case c == '\'':
		return l.text(false, true)
	case c == '"':
		return l.name()
	case c == '$':
		return l.dollar()
	case c >= '0' && c <= '9':
		// Letters after digits are a separate word, as before PostgreSQL 15: in 1e'x' the
		// string is an escape string.
		return l.take(l.span(1, isDigit))
	}
	return l.take(1)
}

// skipBlank skips blanks and comments. Block comments nest. A line comment also ends at a
// carriage return.
func (l *lexer) skipBlank() {
	for {
		l.rest = strings.TrimLeft(l.rest, " \t\n\r\f\v")
		switch {
		case strings.HasPrefix(l.rest, "--"):
			l.take(lineEnd(l.rest))
		case strings.HasPrefix(l.rest, "/*"):
			end := commentEnd(l.rest)
			l.cut = end < 0
			if l.cut {
				end = len(l.rest)
			}
			l.take(end)
		default:
			return
		}
	}
}

// word reads a word. If it is a one-letter prefix of a string, word reads the string too.
func (l *lexer) word() string {
	word := l.take(l.span(1, isWordPart))
	switch {
	case len(word) != 1 || l.rest == "":
		return word
	case l.rest[0] == '\'':
		switch word[0] | 0x20 {
		case 'e':
			return l.text(true, true)
		case 'b', 'x':
			return l.text(false, false)
		}
	case word[0]|0x20 == 'u' && strings.HasPrefix(l.rest, "&'"):
		l.take(1)
		return l.text(false, true)
	}
	return word
}

// text reads a string and the pieces that continue it on further lines. escapes means
// that a backslash escapes the next byte. doubled means that two quotes stand for one.
func (l *lexer) text(escapes, doubled bool) string {
	i := 1
	for i < len(l.rest) {
		switch c := l.rest[i]; {
		case c == '\\' && escapes:
			i += 2
		case c != '\'':
			i++
		case doubled && strings.HasPrefix(l.rest[i+1:], "'"):
			i += 2
		default:
			more := continued(l.rest[i+1:])
			if more < 0 {
				l.take(i + 1)
				return quoted
			}
			i += 1 + more
		}
	}
	return l.unended()
}

// continued returns how many bytes precede the contents of the next piece of a string:
// blanks and comments with a newline among them, and a quote. It returns -1 if there is
// no such piece.
func continued(rest string) int {
	newline := false
	for i := 0; i < len(rest); {
		switch rest[i] {
		case '\n', '\r':
			newline = true
			i++
		case ' ', '\t', '\f', '\v':
			i++
		case '\'':
			if newline {
				return i + 1
			}
			return -1
		default:
			if !strings.HasPrefix(rest[i:], "--") {
				return -1
			}
			i += lineEnd(rest[i:])
		}
	}
	return -1
}

func (l *lexer) name() string {
	for i := 1; i < len(l.rest); i++ {
		if l.rest[i] != '"' {
			continue
		}
		if strings.HasPrefix(l.rest[i+1:], `"`) {
			i++
			continue
		}
		l.take(i + 1)
		return quoted
	}
	return l.unended()
}

// dollar reads a dollar-quoted string, or a single $.
func (l *lexer) dollar() string {
	end := 1
	if len(l.rest) > 1 && isWordStart(l.rest[1]) {
		end = l.span(2, func(c byte) bool { return c != '$' && isWordPart(c) })
	}
	if end == len(l.rest) || l.rest[end] != '$' {
		return l.take(1)
	}
	tag := l.rest[:end+1]
	length := strings.Index(l.rest[len(tag):], tag)
	if length < 0 {
		return l.unended()
	}
	l.take(2*len(tag) + length)
	return quoted
}

func (l *lexer) take(n int) (taken string) {
	taken, l.rest = l.rest[:n], l.rest[n:]
	return taken
}

func (l *lexer) unended() string {
	l.rest, l.cut = "", true
	return quoted
}

// span returns the end of the run of bytes from i on for which is returns true.
func (l *lexer) span(i int, is func(c byte) bool) int {
	for i < len(l.rest) && is(l.rest[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWordStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

func isWordPart(c byte) bool { return isWordStart(c) || isDigit(c) || c == '$' }

// lineEnd returns the length of the first line of rest, without its end.
func lineEnd(rest string) int {
	if end := strings.IndexAny(rest, "\r\n"); end >= 0 {
		return end
	}
	return len(rest)
}

// commentEnd returns the index after the comment that sql begins with, or -1 if the
// comment has no end.
func commentEnd(sql string) int {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
			if depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}
