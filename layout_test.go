package fencepost_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/fencepost/fencepost"

// layout is the table of docs/design.md: what each package may import, of this
// module and of others, besides the standard library. Tests, commands and
// internal helpers of tests may import anything. A package that is not here
// fails the test: it has no place yet.
var layout = map[string][]string{
	"internal/field":    {"github.com/dunglas/httpsfv"},
	"internal/picture":  {"simulations/history"},
	"internal/point":    {},
	"internal/spent":    {},
	"internal/tenure":   {},
	"internal/sqltext":  {},
	"internal/lock":     {"token"},
	"internal/window":   {"token", "guard"},
	"token":             {"internal/field", "internal/spent", "internal/tenure", "github.com/dunglas/httpsfv"},
	"token/seal":        {"token", "internal/field", "github.com/dunglas/httpsfv"},
	"token/memtoken":    {"token", "internal/lock"},
	"token/redistoken":  {"token", "github.com/redis/go-redis/v9"},
	"token/pgtoken":     {"token", "github.com/jackc/pgx/v5"},
	"token/redisquorum": {"token", "github.com/redis/go-redis/v9"},
	"token/tokentest":   {"token"},
	"guard":             {"token", "internal/point"},
	"guard/guardtest":   {"token", "guard"},
	"guard/redisguard":  {"token", "guard", "internal/point", "github.com/redis/go-redis/v9"},
	"sqlguard":          {"token", "guard", "internal/point", "internal/sqltext", "github.com/jackc/pgx/v5"},
	"sqlguard/stdsql":   {"token", "guard", "internal/point"},
	"httpguard": {"token", "token/seal", "guard", "internal/field", "internal/point", "internal/spent", "internal/window",
		"github.com/dunglas/httpsfv", "github.com/felixge/httpsnoop"},
	"simulations":                {"token", "guard", "internal/picture", "internal/point", "simulations/history"},
	"simulations/history":        {"github.com/anishathalye/porcupine"},
	"simulations/pgxpoint":       {"internal/point", "internal/sqltext", "github.com/jackc/pgx/v5"},
	"simulations/sqlpoint":       {"internal/point", "internal/sqltext"},
	"simulations/httppoint":      {"internal/point"},
	"simulations/process":        {"token", "guard", "internal/point", "internal/child", "simulations", "simulations/history"},
	"simulations/proxy":          {},
	"migrations":                 {"github.com/pressly/goose/v3"},
	"cmd/fencepost":              {"*"},
	"examples/databasesql":       {"*"},
	"examples/internal/bank":     {"*"},
	"examples/leader":            {"*"},
	"examples/queue":             {"*"},
	"examples/repository":        {"*"},
	"examples/repository/after":  {"*"},
	"examples/repository/before": {"*"},
	"examples/repository/rows":   {"*"},
	"examples/schedule":          {"*"},
	"examples/sqlc":              {"*"},
	"examples/sqlc/db":           {"*"},
	"examples/transfer":          {"*"},
	"examples/withdraw":          {"*"},
	"internal/child":             {},
	"internal/doctor":            {"*"},
	"internal/failures":          {"*"},
	"internal/fairness":          {"*"},
	"internal/lockset":           {"*"},
	"internal/heard":             {"*"},
	"internal/kernel":            {"token", "token/seal", "guard", "internal/lock", "internal/tenure", "internal/window", "simulations/history"},
	"internal/partition":         {"*"},
	"internal/paused":            {"*"},
	"internal/quote":             {"*"},
	"internal/ratio":             {},
	"internal/simulate":          {"*"},
	"internal/testenv":           {"*"},
}

type listed struct {
	ImportPath string
	GoFiles    []string
	Imports    []string
}

func TestImportsFollowTheLayout(t *testing.T) {
	t.Parallel()
	for _, pkg := range list(t) {
		if len(pkg.GoFiles) == 0 {
			continue // only tests
		}
		name := strings.TrimPrefix(pkg.ImportPath, module+"/")
		allowed, known := layout[name]
		require.True(t, known, "%s has no place in the layout", name)
		for _, imported := range pkg.Imports {
			require.True(t, permitted(allowed, imported), "%s must not import %s", name, imported)
		}
	}
}

func TestHeavyDependenciesStayInNestedModules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for _, heavy := range []string{"testcontainers", "redsync", "redislock", "etcd", "opentelemetry", "gorm", "go-chi", "labstack", "gin-gonic"} {
		require.NotContains(t, string(text), heavy, "%s would lift every user's dependencies", heavy)
	}
}

func permitted(allowed []string, imported string) bool {
	if !strings.Contains(strings.Split(imported, "/")[0], ".") {
		return true // standard library
	}
	own, isOwn := strings.CutPrefix(imported, module+"/")
	return slices.ContainsFunc(allowed, func(a string) bool {
		return a == "*" || isOwn && own == a || !isOwn && (imported == a || strings.HasPrefix(imported, a+"/"))
	})
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,GoFiles,Imports", module+"/...")
	cmd.Env = append(cmd.Environ(), "GOWORK=off") // this module alone
	out, err := cmd.Output()
	require.NoError(t, err)
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg listed
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, pkg)
	}
}
