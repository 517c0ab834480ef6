package sqlguard

import "strings"

// staysInside reports whether a statement is one of those that cannot commit:
// queries, with all that they call, and changes of rows.
func staysInside(sql string) bool {
	// It may also be the name of a prepared statement, and that of a CALL could
	// begin like a query's: "delete old rows". Hardly any query has none of these.
	if !strings.ContainsAny(sql, "=(*,$") {
		return false
	}
	switch strings.ToUpper(firstWord(sql)) {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE":
		return true
	}
	return false
}

// firstWord goes past blanks, comments and parentheses as the server's own lexer
// does: comments nest, and one of a line ends at a carriage return too. What it
// cannot make out has no first word.
func firstWord(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\n\r\f(")
		switch {
		case strings.HasPrefix(sql, "--"):
			end := strings.IndexAny(sql, "\r\n")
			if end < 0 {
				return ""
			}
			sql = sql[end:]
		case strings.HasPrefix(sql, "/*"):
			end := commentEnd(sql)
			if end < 0 {
				return ""
			}
			sql = sql[end:]
		default:
			end := strings.IndexFunc(sql, func(r rune) bool {
				return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '$' || r >= 0x80)
			})
			if end < 0 {
				return sql
			}
			return sql[:end]
		}
	}
}

// commentEnd is where the comment that sql begins with has ended, -1 for nowhere.
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
