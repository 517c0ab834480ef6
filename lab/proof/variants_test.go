package proof_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
