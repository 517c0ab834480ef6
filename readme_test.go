package fencepost_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/test/doccheck"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/migrations"
	fencetoken "github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestReadmeQuotesCodeThatCompiles(t *testing.T) {
	t.Parallel()
	doccheck.Check(t, "README.md", "examples/quickstart", "examples/withdraw", "examples/adopt")
}

// The README's first program is the whole of main.go, and short enough for one screen.
func TestReadmeShowsTheWholeQuickstart(t *testing.T) {
	t.Parallel()
	_, block, _ := strings.Cut(read(t, "README.md"), "\n```go\n")
	block, _, _ = strings.Cut(block, "```")
	_, program, found := strings.Cut(read(t, "examples/quickstart/main.go"), "\npackage main\n")
	require.True(t, found)
	require.Equal(t, "package main\n"+program, block)
	require.LessOrEqual(t, strings.Count(block, "\n"), 44)
}

// The badges show the module's path, the go line of go.mod, and the licence.
func TestReadmeBadgesAreTrue(t *testing.T) {
	t.Parallel()
	readme, gomod := read(t, "README.md"), read(t, "go.mod")
	require.True(t, strings.HasPrefix(gomod, "module "+module+"\n"))
	require.Contains(t, readme, "[![Go Reference](https://pkg.go.dev/badge/"+module+".svg)](https://pkg.go.dev/"+module+")")
	line := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(gomod)
	require.NotNil(t, line)
	require.Contains(t, readme, "[![Go "+line[1]+" or newer](https://img.shields.io/badge/go-"+line[1]+"_or_newer-")
	require.True(t, strings.HasPrefix(read(t, "LICENSE"), "MIT License\n"))
	require.Contains(t, readme, "[![License: MIT](https://img.shields.io/badge/license-MIT-")
	require.LessOrEqual(t, strings.Count(readme, "\n"), 225)
}

// Each error that the first program prints has a row in the table of errors.
func TestReadmeExplainsTheErrorsThatItPrints(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	tok := fencetoken.Token{Resource: "report/1", Number: 179516977481431}
	for name, err := range map[string]error{"guard.ErrStale": &guard.StaleError{Token: tok}, "token.ErrLost": &fencetoken.LostError{Token: tok}} {
		text, _, _ := strings.Cut(err.Error(), ": mark is newer")
		require.Regexp(t, "(?m)^(2026/11/24 10:00:00 )?"+text, readme)
		require.Contains(t, readme, "\n| `"+name+"`", text)
	}
}

func TestTheIndexListsEachPageOnce(t *testing.T) {
	t.Parallel()
	index := read(t, "docs/README.md")
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, page := range pages {
		name := filepath.Base(page)
		if name != "README.md" {
			require.Equal(t, 1, strings.Count(index, "\n| ["+name+"]("+name+") | "), name)
		}
	}
}

// answered has the errors of the root module by the names of docs/errors.md. Those of
// contrib are in modules of their own, and httpguard cannot name them.
var answered = map[string]error{
	"guard.ErrStale": guard.ErrStale, "guard.ErrCollision": guard.ErrCollision, "guard.ErrUnknown": guard.ErrUnknown,
	"guard.ErrRetryable": guard.ErrRetryable, "guard.ErrEvicted": guard.ErrEvicted, "guard.ErrRowNotFound": guard.ErrRowNotFound,
	"guard.ErrClaimFirst": guard.ErrClaimFirst, "guard.ErrKeyReused": guard.ErrKeyReused, "guard.ErrUnfenced": guard.ErrUnfenced,
	"token.ErrMissing": fencetoken.ErrMissing, "token.ErrInvalid": fencetoken.ErrInvalid, "token.ErrBadSignature": fencetoken.ErrBadSignature,
	"token.ErrReleased": fencetoken.ErrReleased, "token.ErrHeld": fencetoken.ErrHeld, "token.ErrLost": fencetoken.ErrLost,
	"token.ErrUnreachable": fencetoken.ErrUnreachable, "token.ErrExhausted": fencetoken.ErrExhausted, "token.ErrTooFarAhead": fencetoken.ErrTooFarAhead,
	"lock.ErrWaitTimeout": lock.ErrWaitTimeout, "lock.ErrNotReleased": lock.ErrNotReleased, "lock.ErrNotLeased": lock.ErrNotLeased, "lock.ErrNoClaim": lock.ErrNoClaim,
	"lock.ErrNotLeader":       lock.ErrNotLeader,
	"httpguard.ErrTwoSources": httpguard.ErrTwoSources,
	"redistoken.ErrReplicas":  redistoken.ErrReplicas, "redistoken.ErrClosed": redistoken.ErrClosed,
	"migrations.ErrUnversioned": migrations.ErrUnversioned,

	"redisquorum.ErrNoMajority": errors.New("of another module"),
}

func TestEveryExportedErrorHasARowWithItsStatus(t *testing.T) {
	t.Parallel()
	rows := map[string]int{}
	for _, row := range regexp.MustCompile("(?m)^\\| \\[`(\\w+)\\.(Err\\w+)`\\]\\(\\.\\./(\\S+)\\) \\| (\\d+) \\| ").FindAllStringSubmatch(read(t, "docs/errors.md"), -1) {
		name := row[1] + "." + row[2]
		require.NotContains(t, rows, name, "two rows")
		require.Regexp(t, `(?m)^(var |\t)`+row[2]+`\b.*=`, read(t, row[3]), "the file that the row links must declare %s", name)
		rows[name], _ = strconv.Atoi(row[4])
	}
	exported := exportedErrors(t)
	require.Len(t, answered, len(exported))
	for _, name := range exported {
		require.Contains(t, rows, name, "docs/errors.md has no row")
		require.Contains(t, answered, name)
		w := httptest.NewRecorder()
		httpguard.Error(w, httptest.NewRequest("PUT", "/", nil), answered[name])
		require.Equal(t, w.Code, rows[name], name)
	}
	require.Len(t, rows, len(exported), "a row for an error that is not there")
}

// exportedErrors returns the sentinel errors that the public packages export, as package.Name.
func exportedErrors(t *testing.T) (names []string) {
	t.Helper()
	for dir, pkg := range packages(t) {
		if strings.Contains("/"+dir+"/", "/internal/") || strings.HasPrefix(dir, "cmd/") || strings.HasPrefix(dir, "examples/") || strings.HasPrefix(dir, "lab") {
			continue
		}
		for _, name := range pkg.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
			require.NoError(t, err)
			for _, decl := range file.Decls {
				group, _ := decl.(*ast.GenDecl)
				if group == nil || group.Tok != token.VAR {
					continue
				}
				for _, spec := range group.Specs {
					for _, id := range spec.(*ast.ValueSpec).Names {
						if strings.HasPrefix(id.Name, "Err") {
							names = append(names, pkg.Name+"."+id.Name)
						}
					}
				}
			}
		}
	}
	require.NotEmpty(t, names)
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}
