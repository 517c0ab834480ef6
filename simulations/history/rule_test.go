package history_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/history"
)

func TestRulesAreListed(t *testing.T) {
	t.Parallel()
	at := map[history.Place][]string{}
	for _, rule := range history.Rules() {
		at[rule.At] = append(at[rule.At], rule.String())
		require.True(t, strings.HasSuffix(rule.Words, "."), rule.Words)
	}
	require.Equal(t, map[history.Place][]string{
		history.AtResource: {"order", "holder", "once", "reason", "mark", "trace", "versions"},
		history.AtLock:     {"numbers", "owner", "alone", "burnt"},
		history.AtAlive:    {"alive", "bound"},
	}, at)
	history.Rules()[0].ID = "another"
	require.Equal(t, "order", history.Rules()[0].ID)
}
