package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	code = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	// A name in a literal, a shell's variable in one, and what is compared with the column.
	nameInSQL = regexp.MustCompile(`\b(?:SELECT|UPDATE|INSERT|DELETE|DO|CALL)\b(?:[^;]|; )*?(?:'[a-z]+/[^';]+'|'\$\w+'|\bresource\s*=\s*'|` +
		`\b(?i:admit\w*|mint\w*|evict|release\w*|reset|lock_key|get_lock)\(\s*')`)
)

// namesInSQL returns the statements in the code of a page that have the name of a resource as
// part of their text. An operator who pastes a name with a quote would change the statement.
func namesInSQL(page string) (found []string) {
	for _, text := range code.FindAllString(page, -1) {
		found = append(found, nameInSQL.FindAllString(text, -1)...)
	}
	return found
}

func TestNoPageHasTheNameOfAResourceInSQL(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]bool{
		"`SELECT fencepost.mint('account/42', 'operator', 10000)`":                      true,
		"`SELECT fencepost.mint('RESOURCE', 'operator', 10000)`":                        true,
		"`SELECT fencepost.mint(:'resource', 'operator', 10000)`":                       false,
		"```sql\nUPDATE fencepost_marks\n SET number = 5 WHERE resource = 'x';\n```":    true,
		"```sql\nUPDATE fencepost_marks\n SET number = 5 WHERE resource = ?;\n```":      false,
		"```sh\npsql -c \"BEGIN; SELECT fencepost.admit('$FENCING_RESOURCE', 1)\"\n```": true,
		"```sh\nmysql -e \"UPDATE t SET n = 5 WHERE resource = X'$(hex)'\"\n```":        false,
		"```go\nsession.QueryRow(\"SELECT GET_LOCK('account/42', 60)\")\n```":           true,
		"```go\nsession.QueryRow(\"SELECT GET_LOCK(?, 60)\", \"account/42\")\n```":      false,
		"`SELECT fencepost.protect('accounts', $$'account/' || id$$)`":                  false,
		"SELECT 'account/42' is no code":                                                false,
	} {
		require.Equal(t, wrong, len(namesInSQL(text)) > 0, text)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	require.Greater(t, len(pages), 10)
	for _, name := range append(pages, "../../README.md") {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Empty(t, namesInSQL(string(page)), name)
	}
}

// inPsql returns the statement as psql sends it, with the variables in place of :'name'.
func inPsql(statement string, variables map[string]string) string {
	for name, value := range variables {
		statement = strings.ReplaceAll(statement, ":'"+name+"'", "'"+strings.ReplaceAll(value, "'", "''")+"'")
	}
	return statement
}
