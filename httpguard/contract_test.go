package httpguard_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
)

func contract(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/http.md")
	require.NoError(t, err)
	return string(page)
}

// blocks returns the fenced code blocks of a page that begin with start.
func blocks(page, start string) (found []string) {
	for _, part := range strings.Split(page, "\n```")[1:] {
		_, block, _ := strings.Cut(part, "\n")
		if strings.HasPrefix(block, start) {
			found = append(found, block)
		}
	}
	return found
}

// problemTypes returns the package's constants from its source: a new one needs a vector
// and a row in the page.
func problemTypes(t *testing.T) (types []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Problem") {
				types = append(types, spec.Names[0].Name)
			}
			return true
		})
	}
	require.NotEmpty(t, types)
	return types
}

func TestPageAndVectorsHaveEveryAnswer(t *testing.T) {
	t.Parallel()
	prefix := strings.TrimSuffix(httpguard.ProblemStale, "ProblemStale")
	judged, listed, types := map[string]bool{}, map[string]bool{}, map[string]bool{}
	judge := func(status int, typ string) {
		if typ != "" {
			name, ours := strings.CutPrefix(typ, prefix)
			require.True(t, ours, typ)
			judged[fmt.Sprint(status, name)], types[name] = true, true
		}
	}
	all := readVectors(t)
	for _, v := range all.Admit {
		judge(v.Status, v.Type)
	}
	for _, v := range all.Once {
		judge(v.Status, v.Type)
	}
	page := contract(t)
	require.Contains(t, page, "`"+prefix+"`")
	for _, row := range regexp.MustCompile("(?m)^\\| (\\d{3}) \\(RFC .*?\\) \\| `(\\w+)` \\|").FindAllStringSubmatch(page, -1) {
		listed[row[1]+row[2]] = true
	}
	require.Equal(t, judged, listed)
	for _, name := range problemTypes(t) {
		require.True(t, types[name], "no vector has %s", name)
	}
}

func TestPageQuotesWhatIsSent(t *testing.T) {
	t.Parallel()
	page, all := contract(t), readVectors(t)
	t.Run("its fields are well-formed", func(t *testing.T) {
		t.Parallel()
		fields := blocks(page, httpguard.Header+": ")
		require.Len(t, fields, 2)
		for _, field := range fields {
			line := strings.TrimSpace(strings.TrimPrefix(field, httpguard.Header+": "))
			toks, err := httpguard.Parse([]string{line})
			require.NoError(t, err, line)
			require.Len(t, toks, 1)
		}
	})
	t.Run("its signature is that of a vector", func(t *testing.T) {
		t.Parallel()
		i := slices.IndexFunc(all.Sign, func(v signVector) bool { return v.Name == "the example of the contract" })
		require.Contains(t, blocks(page, httpguard.Header), httpguard.Header+": "+all.Sign[i].Text)
		require.Equal(t, []string{all.Sign[i].Input}, blocks(page, "fencepost-signature-1"))
	})
	t.Run("its answer is that of a server", func(t *testing.T) {
		t.Parallel()
		var quoted map[string]any
		require.NoError(t, json.Unmarshal([]byte(blocks(page, "{")[0]), &quoted))
		s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: at(t), InFlight: new(httpguard.InFlight)}), false)
		require.Equal(t, s.do("PUT", "/accounts/42", line("account/42", 32, "b")).problem(t), quoted)
	})
	t.Run("its limits are the code's", func(t *testing.T) {
		t.Parallel()
		require.Contains(t, page, fmt.Sprintf("At most %d members, and %d bytes", httpguard.MaxMembers, httpguard.MaxBytes))
	})
}
