package redisquorum_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// envSearch, when set, searches the large instances too: some minutes.
const envSearch = "FENCEPOST_QUORUM_SEARCH"

// hazard R14
func TestNumbersRiseInEveryWorldThatCanBe(t *testing.T) {
	t.Parallel()
	sound := []protocol{
		{nodes: 3, holders: 3, losses: 1},
		{nodes: 3, holders: 2, losses: 3},
		{nodes: 3, holders: 3, clock: true},
		{nodes: 4, holders: 2, losses: 1},
		{nodes: 5, holders: 2, losses: 1},
	}
	if os.Getenv(envSearch) != "" {
		sound = append(sound,
			protocol{nodes: 3, holders: 3, losses: 3, clock: true},
			protocol{nodes: 3, holders: 4, losses: 2},
			protocol{nodes: 4, holders: 3, losses: 2},
			protocol{nodes: 5, holders: 2, losses: 3},
			protocol{nodes: 5, holders: 3, losses: 1},
		)
	}
	for _, p := range sound {
		worlds, how := p.search(numbers, holders)
		require.Empty(t, how, "%d nodes, %d holders, %d losses", p.nodes, p.holders, p.losses)
		t.Logf("%d nodes, %d holders, %d losses: safe in all of %d worlds", p.nodes, p.holders, p.losses, worlds)
	}
}

// hazard R14
func TestEveryPartOfTheProtocolIsNeeded(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]protocol{
		"no second round":                            {holders: 3, oneRound: true},
		"a second round whoever has the lock":        {holders: 2, anyWriter: true},
		"no marker":                                  {holders: 2, losses: 1, noMarker: true},
		"a recovery at once":                         {holders: 2, losses: 1, atOnce: true},
		"a recovery from fewer than a majority":      {holders: 2, losses: 1, fewer: 1},
		"a marker that comes back without a counter": {holders: 2, losses: 1, fewer: -1},
	} {
		for _, nodes := range []int{3, 5} {
			t.Run(fmt.Sprintf("%s, of %d nodes", name, nodes), func(t *testing.T) {
				t.Parallel()
				p := broken
				if p.nodes = nodes; p.fewer < 0 {
					p.fewer = p.need()
				}
				worlds, how := p.search(numbers)
				require.NotEmpty(t, how, "no number repeats or falls in %d worlds", worlds)
				t.Logf("after %d worlds:\n%s", worlds, how)
			})
		}
	}
}
