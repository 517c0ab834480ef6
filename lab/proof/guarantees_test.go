package proof_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page is true only as long as the tests that it names exist.
func TestGuaranteesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile("`([a-z/]+)\\.(Test\\w+)`").FindAllStringSubmatch(guarantees(t), -1)
	require.NotEmpty(t, named)
	for _, m := range named {
		require.Contains(t, testsOf(t, m[1]), "func "+m[2]+"(", "there is no %s in %s", m[2], m[1])
	}
}

func TestGuaranteesNameFilesThatExist(t *testing.T) {
	t.Parallel()
	for _, m := range regexp.MustCompile("`([a-z_/]+\\.[a-z]+)`").FindAllStringSubmatch(guarantees(t), -1) {
		if strings.Contains(m[1], "/") {
			require.FileExists(t, filepath.Join("..", "..", m[1]))
		}
	}
}

func TestGuaranteesNameEveryPromiseOfTheModel(t *testing.T) {
	t.Parallel()
	page := guarantees(t)
	for _, promise := range names(t, `(?m)^(?:bool (\w+) = 1;)`) {
		require.Contains(t, page, "`"+promise+"`")
	}
	known := strings.Join(names(t, `(\w+)`), " ") + " "
	for _, m := range regexp.MustCompile("`([a-z]+_[a-z_]+|[A-Z]+_[A-Z_]+)`").FindAllStringSubmatch(page, -1) {
		require.Contains(t, known, m[1]+" ", "the model has no %s", m[1])
	}
}

func guarantees(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/guarantees.md")
	require.NoError(t, err)
	return string(page)
}

// testsOf returns the text of a folder's tests.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// Each promise must be broken by a variant: otherwise it may be a promise that cannot be
// broken.
func TestEachPromiseIsBrokenByAVariant(t *testing.T) {
	t.Parallel()
	breaks := map[string]bool{}
	for _, b := range broken {
		breaks[b.promise] = true
	}
	promises := names(t, `(?m)^bool (\w+) = 1;`)
	require.NotEmpty(t, promises)
	for _, promise := range promises {
		require.True(t, breaks[promise], "no variant breaks %s", promise)
	}
}

func TestEachEventOfTheModelIsReached(t *testing.T) {
	t.Parallel()
	events := map[string]bool{}
	for _, h := range reached {
		events[h.name] = true
	}
	happens := names(t, `HAPPENS\((\w+)\)`)
	for _, event := range happens {
		require.True(t, event == "name" || events[event], "no search claims that %s never happens", event)
	}
	for event := range events {
		require.Contains(t, happens, event)
	}
}

// A variant in the model that is not searched proves nothing.
func TestEachVariantIsSearched(t *testing.T) {
	t.Parallel()
	searched := map[string]bool{}
	for _, flag := range define("NEVER BREAKS FAULTS NO_RECOVERY") {
		searched[flag] = true
	}
	for _, s := range sound {
		searched["-D"+strings.Fields(s.settings)[0]] = true
	}
	for _, b := range broken {
		searched["-D"+b.variant] = true
	}
	for _, flag := range names(t, `(?:#ifdef |#ifndef |defined\()([A-Z_]+)`) {
		if !isSetting(flag) {
			require.True(t, searched["-D"+flag], "%s is not searched", flag)
		}
	}
}

func isSetting(flag string) bool {
	settings := []string{"GRANTS", "WRITES", "FORGETS", "JUMPS", "PRUNES", "COPIES"}
	return strings.Contains(" "+strings.Join(settings, " ")+" ", " "+flag+" ")
}

// names returns what the first group of pattern matches in the model.
func names(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob("*.pml")
	require.NoError(t, err)
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
		}
	}
	return found
}
