package fencepost_test

import (
	"bytes"
	"errors"
	"go/build"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/fencepost/fencepost"

// layout has what each package may import, of this repository and of others, besides the
// standard library. Tests, commands and internal helpers of tests may import anything. A
// package that is not here fails the test: it has no place yet. So does a row without a
// package.
var layout = map[string][]string{
	".":                    {},
	"internal/cli":         {"internal/timeline"},
	"internal/depose":      {"token", "guard"},
	"internal/engine":      {},
	"internal/failpoint":   {},
	"internal/history":     {"token", "lock", "guard"},
	"internal/httpwrite":   {"internal/writectx"},
	"internal/inflight":    {"token", "guard"},
	"internal/lockscript":  {},
	"internal/lockstate":   {"token"},
	"internal/marks":       {},
	"internal/netfault":    {},
	"internal/outage":      {},
	"internal/pgadmit":     {"token", "guard", "internal/writectx"},
	"internal/pgpooler":    {},
	"internal/pgwrite":     {"token", "guard", "internal/engine", "internal/failpoint", "internal/pgadmit", "internal/sqltext", "internal/writectx", "github.com/jackc/pgx/v5"},
	"internal/register":    {"token", "internal/lockstate", "golang.org/x/sync/errgroup"},
	"internal/rounds":      {"token", "lock", "guard", "internal/failpoint", "internal/history", "internal/subprocess"},
	"internal/schedule":    {},
	"internal/sqltext":     {},
	"internal/structfield": {"github.com/dunglas/httpsfv"},
	"internal/subprocess":  {},
	"internal/timeline":    {"internal/history"},
	"internal/tokenctx":    {},
	"internal/tokenuse":    {},
	"internal/writectx":    {"token"},

	"token":               {"internal/failpoint", "internal/marks", "internal/structfield", "internal/tokenctx", "internal/tokenuse", "github.com/dunglas/httpsfv"},
	"token/memtoken":      {"token", "internal/lockstate"},
	"token/consultoken":   {"token", "internal/register", "internal/register/httpjson"},
	"token/etcdtoken":     {"token", "internal/register", "internal/register/httpjson"},
	"token/k8stoken":      {"token", "guard", "internal/register", "internal/register/httpjson"},
	"token/httptoken":     {"token", "guard", "httpguard", "httpguard/signature", "internal/depose", "internal/httpwrite", "internal/register/httpjson"},
	"token/redistoken":    {"token", "internal/lockscript", "internal/outage", "github.com/redis/go-redis/v9"},
	"token/pgtoken":       {"token", "internal/marks", "internal/outage", "github.com/jackc/pgx/v5"},
	"httpguard/signature": {"token", "internal/structfield", "github.com/dunglas/httpsfv"},
	"token/tokentest":     {"token"},
	"lock":                {"token", "internal/failpoint", "internal/marks", "internal/schedule", "internal/tokenctx"},

	"guard":             {"token", "internal/engine", "internal/failpoint", "internal/writectx"},
	"guard/guardtest":   {"token", "guard"},
	"redisguard":        {"token", "guard", "internal/failpoint", "internal/writectx", "github.com/redis/go-redis/v9"},
	"sqlguard":          {"token", "guard", "internal/marks", "internal/pgwrite", "github.com/jackc/pgx/v5"},
	"sqlguard/rowguard": {"token", "guard", "sqlguard", "internal/pgwrite", "github.com/jackc/pgx/v5"},
	"sqlguard/stdsql":   {"token", "guard", "internal/engine", "internal/failpoint", "internal/pgadmit", "internal/writectx"},
	"httpguard": {"token", "httpguard/signature", "guard", "internal/failpoint", "internal/httpwrite", "internal/inflight", "internal/structfield",
		"internal/tokenctx", "internal/tokenuse", "github.com/dunglas/httpsfv", "github.com/felixge/httpsnoop"},
	"migrations": {"internal/engine", "internal/pgpooler", "github.com/pressly/goose/v3"},

	"simulations":            {"token", "lock", "guard", "internal/failpoint", "internal/history", "internal/timeline", "internal/tokenctx", "internal/tokenuse"},
	"simulations/httppoint":  {"internal/failpoint"},
	"simulations/redispoint": {"internal/failpoint", "internal/lockscript", "github.com/redis/go-redis/v9"},
	"simulations/pgxpoint":   {"internal/failpoint", "internal/sqltext", "github.com/jackc/pgx/v5"},
	"simulations/process":    {"internal/history", "internal/rounds", "internal/subprocess", "simulations"},
	"simulations/sqlpoint":   {"internal/failpoint", "internal/sqltext"},

	"cmd/fencepost":                     {"*"},
	"cmd/fencepost/internal/connect":    {"*"},
	"cmd/fencepost/internal/doctor":     {"*"},
	"cmd/fencepost/internal/locks":      {"*"},
	"cmd/fencepost/internal/marks":      {"*"},
	"cmd/fencepost/internal/migrate":    {"*"},
	"cmd/fencepost/internal/proxy":      {"*"},
	"cmd/fencepost/internal/run":        {"*"},
	"cmd/fencepost/internal/serve":      {"*"},
	"cmd/fencepost/internal/simulate":   {"*"},
	"cmd/fencepost/internal/usage":      {"*"},
	"examples/adopt":                    {"*"},
	"examples/internal/bank":            {"*"},
	"examples/leader":                   {"*"},
	"examples/outbox":                   {"*"},
	"examples/quickstart":               {"*"},
	"examples/routers":                  {"*"},
	"examples/schedule":                 {"*"},
	"examples/sqlc":                     {"*"},
	"examples/sqlc/db":                  {"*"},
	"examples/transfer":                 {"*"},
	"examples/withdraw":                 {"*"},
	"internal/register/httpjson":        {"token", "internal/outage"},
	"internal/register/registertest":    {"token", "internal/register", "token/tokentest", "github.com/stretchr/testify"},
	"internal/test/benchratio":          {},
	"internal/test/doccheck":            {"*"},
	"internal/test/hooktest":            {"*"},
	"internal/test/leaktest":            {"internal/test/serverproc", "go.uber.org/goleak"},
	"internal/test/pausetest":           {"*"},
	"internal/test/pgtest":              {"*"},
	"internal/test/serverproc":          {},
	"internal/test/slowlink":            {"internal/subprocess"},
	"internal/test/testenv":             {"*"},
	"internal/test/testservers":         {"*"},
	"cmd/fencepost/internal/kubernetes": {"*"},
	"examples/schedulers":               {"*"},

	// The lab: what proves, and ships to no user. Nothing imports it.
	"lab":         {},
	"lab/release": {},

	"contrib/etcdguard":   {"token", "guard", "internal/failpoint", "internal/writectx", "go.etcd.io/etcd", "google.golang.org/grpc"},
	"contrib/gormguard":   {"guard", "sqlguard/stdsql", "gorm.io/gorm"},
	"contrib/natstoken":   {"token", "internal/register", "github.com/nats-io/nats.go"},
	"contrib/otelfence":   {"token", "lock", "guard", "go.opentelemetry.io/otel"},
	"contrib/redisquorum": {"token", "internal/outage", "github.com/redis/go-redis/v9"},
	"contrib/zktoken":     {"token", "internal/outage", "internal/register", "github.com/go-zookeeper/zk"},
}

// modules are those whose packages have a place in the layout.
var modules = []string{".", "cmd/fencepost", "lab", "contrib/etcdguard", "contrib/gormguard", "contrib/natstoken", "contrib/otelfence", "contrib/redisquorum", "contrib/zktoken", "examples/adopt", "examples/routers", "examples/schedulers"}

func TestImportsFollowTheLayout(t *testing.T) {
	t.Parallel()
	pkgs := packages(t)
	for name, pkg := range pkgs {
		if len(pkg.GoFiles) == 0 {
			delete(pkgs, name) // only tests
			continue
		}
		allowed, known := layout[name]
		require.True(t, known, "%s has no place in the layout", name)
		for _, imported := range pkg.Imports {
			require.True(t, permitted(allowed, imported), "%s must not import %s", name, imported)
		}
	}
	for name := range layout {
		require.NotNil(t, pkgs[name], "%s is in the layout, and there is no such package", name)
	}
}

// budgets are how many lines of Go each folder may have, tests left out, comments and blank
// lines counted. A file counts for the longest name. A change that raises a number says why,
// and which lines it has taken out elsewhere.
var budgets = map[string]int{
	".":                      55,
	"token":                  560,
	"token/memtoken":         207,
	"token/redistoken":       2_200,
	"token/pgtoken":          1_435,
	"token/tokentest":        2_239,
	"token/consultoken":      234,
	"token/etcdtoken":        381,
	"token/k8stoken":         619,
	"lock":                   1_880,
	"token/httptoken":        1_080,
	"guard":                  469,
	"guard/guardtest":        553,
	"sqlguard":               1_372,
	"sqlguard/rowguard":      1_039,
	"sqlguard/stdsql":        2_599,
	"internal/pgadmit":       351,
	"internal/pgwrite":       1_917,
	"redisguard":             1_297,
	"httpguard":              2_288,
	"httpguard/signature":    520,
	"migrations":             1_408,
	"simulations":            3_463,
	"simulations/httppoint":  128,
	"simulations/pgxpoint":   520,
	"simulations/sqlpoint":   600,
	"simulations/process":    481,
	"simulations/redispoint": 265,
	"internal":               4_838,
	"internal/history":       2_192,
	"internal/register":      1_051,
	"internal/timeline":      763,
	"internal/test":          3_535,
	"cmd/fencepost":          6_669,
	"contrib":                3_379,
	"examples":               1_695,
	"lab":                    1_692,
	"lab/stores":             840,
}

// allLines is the sum of the budgets.
const allLines = 56_814

func TestFoldersKeepTheirBudgets(t *testing.T) {
	t.Parallel()
	lines, sum := map[string]int{}, 0
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		folder := filepath.ToSlash(filepath.Dir(path))
		for budgets[folder] == 0 && folder != "." {
			folder = filepath.ToSlash(filepath.Dir(folder))
		}
		text, err := os.ReadFile(path)
		lines[folder] += bytes.Count(text, []byte("\n"))
		return err
	}))
	for folder, n := range lines {
		require.LessOrEqual(t, n, budgets[folder], "%s has too many lines", folder)
	}
	for folder, n := range budgets {
		require.NotZero(t, lines[folder], "%s has a budget, and no file", folder)
		sum += n
	}
	require.Equal(t, allLines, sum)
}

// guards are the packages of the guards and of what they share.
var guards = []string{"guard", "guard/guardtest", "sqlguard", "sqlguard/rowguard", "sqlguard/stdsql", "redisguard", "httpguard", "httpguard/signature", "contrib/etcdguard", "contrib/gormguard"}

// A guard uses the simulation's switch in one file.
func TestOneFileOfEachGuardUsesTheSwitchOfTheSimulation(t *testing.T) {
	t.Parallel()
	pkgs := packages(t)
	for _, name := range []string{"guard", "internal/pgwrite", "sqlguard/stdsql", "redisguard", "httpguard", "contrib/etcdguard"} {
		require.Len(t, pkgs[name].ImportPos[module+"/internal/failpoint"], 1, name)
	}
}

// The rows of the table imply this too; these two rules hold even if a row becomes "*".
func TestNothingImportsTheLabAndNoGuardTheLock(t *testing.T) {
	t.Parallel()
	for name, pkg := range packages(t) {
		for _, imported := range slices.Concat(pkg.Imports, pkg.TestImports, pkg.XTestImports) {
			if name != "lab" && !strings.HasPrefix(name, "lab/") {
				require.False(t, strings.HasPrefix(imported, module+"/lab"), "%s imports %s", name, imported)
			}
		}
		if slices.Contains(guards, name) {
			require.NotContains(t, pkg.Imports, module+"/lock", name)
		}
	}
}

// mapLine is a line of the map of a package's files, in its package comment or below its
// package clause.
var mapLine = regexp.MustCompile(`(?m)^//\t([\w*/]+\.(?:go|sql|lua))\s`)

// A package of five or more files has a map of them, which says what is decided in each.
func TestManyFilesHaveAMap(t *testing.T) {
	t.Parallel()
	for name, pkg := range packages(t) {
		var files, mapped []string
		for _, file := range slices.Concat(pkg.GoFiles, pkg.CgoFiles, pkg.IgnoredGoFiles) {
			text, err := os.ReadFile(filepath.Join(pkg.Dir, file))
			require.NoError(t, err)
			if file != "doc.go" && !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(string(text), "// Code generated") {
				files = append(files, file)
			}
			for _, line := range mapLine.FindAllStringSubmatch(string(text), -1) {
				if strings.HasSuffix(line[1], ".go") && !strings.Contains(line[1], "/") {
					mapped = append(mapped, line[1])
					continue
				}
				found, err := filepath.Glob(filepath.Join(pkg.Dir, line[1]))
				require.NoError(t, err)
				require.NotEmpty(t, found, "%s has no file %s", name, line[1])
			}
		}
		if len(files) >= 5 || len(mapped) > 0 {
			require.ElementsMatch(t, files, mapped, "%s: its files, and the files in the map of its package comment", name)
		}
	}
}

func TestHeavyDependenciesStayInNestedModules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for _, heavy := range []string{"testcontainers", "redsync", "redislock", "etcd", "nats-io", "zookeeper", "opentelemetry", "gorm", "kong", "go-chi", "labstack", "gin-gonic"} {
		require.NotContains(t, string(text), heavy, "%s would lift every user's dependencies", heavy)
	}
}

// importRow is a row of the table in docs/choosing.md: a package, how many modules it
// needs, and which.
var importRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\d+) \\| (`.*`) \\|$")

func TestChoosingPageListsTheModulesThatAPackageNeeds(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/choosing.md")
	require.NoError(t, err)
	rows := importRow.FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, 5)
	for _, row := range rows {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./"+row[1])
		list.Env = append(list.Environ(), "GOWORK=off")
		out, err := list.Output()
		require.NoError(t, err)
		needed := slices.Compact(slices.Sorted(strings.FieldsSeq(string(out))))
		require.Equal(t, row[2], strconv.Itoa(len(needed)), row[1])
		listed := append(strings.Split(strings.Trim(row[3], "`"), "`, `"), module)
		require.ElementsMatch(t, needed, listed, row[1])
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

// packages returns the packages of the modules, by their path below this folder. It
// reads the import clauses only: `go list` would load each module.
func packages(t *testing.T) map[string]*build.Package {
	t.Helper()
	pkgs := map[string]*build.Package{}
	require.NoError(t, filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		_, nested := os.Stat(filepath.Join(dir, "go.mod"))
		hidden := dir != "." && strings.ContainsAny(d.Name()[:1], "._")
		if hidden || d.Name() == "testdata" || nested == nil && !slices.Contains(modules, filepath.ToSlash(dir)) {
			return filepath.SkipDir
		}
		pkg, err := build.ImportDir(dir, 0)
		if none := new(build.NoGoError); errors.As(err, &none) {
			return nil
		}
		pkgs[filepath.ToSlash(dir)] = pkg
		return err
	}))
	return pkgs
}
