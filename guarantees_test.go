package fencepost_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
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
			require.FileExists(t, filepath.FromSlash(m[1]))
		}
	}
}

func TestGuaranteesNameRulesThatExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, rule := range history.Rules() {
		known[rule.ID] = true
	}
	tables := regexp.MustCompile(`(?m)^\| promise \| model \| test \| simulation \|\n(?:\|.*\n)+`).FindAllString(guarantees(t), -1)
	require.NotEmpty(t, tables)
	for _, row := range strings.Split(strings.Join(tables, ""), "\n") {
		cells := strings.Split(row, " | ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[len(cells)-1], -1) {
			require.True(t, known[m[1]], "there is no rule %s", m[1])
		}
	}
}

func TestGuaranteesNameEveryPromiseOfTheModel(t *testing.T) {
	t.Parallel()
	page := guarantees(t)
	for _, promise := range modelHas(t, `(?m)^(?:bool (\w+) = 1;)`) {
		require.Contains(t, page, "`"+promise+"`")
	}
	known := strings.Join(modelHas(t, `(\w+)`), " ") + " "
	for _, m := range regexp.MustCompile("`([a-z]+_[a-z_]+|[A-Z]+_[A-Z_]+)`").FindAllStringSubmatch(page, -1) {
		require.Contains(t, known, m[1]+" ", "the model has no %s", m[1])
	}
}

func guarantees(t *testing.T) string {
	t.Helper()
	return read(t, "docs/guarantees.md")
}

// testsOf returns the text of a folder's tests.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		all.WriteString(read(t, file))
	}
	return all.String()
}

// modelHas returns what the first group of pattern matches in the model.
func modelHas(t *testing.T, pattern string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("lab/proof/*.pml")
	require.NoError(t, err)
	for _, file := range files {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1) {
			found = append(found, m[1])
		}
	}
	return found
}
