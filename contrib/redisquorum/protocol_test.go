package redisquorum_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/redisquorum"
)

// envSearch, if set, makes the test search the large instances too, for some minutes.
const envSearch = "FENCEPOST_QUORUM_SEARCH"

// hazard R14
func TestNumbersRiseInEveryWorldThatCanBe(t *testing.T) {
	t.Parallel()
	numbersRise(t,
		protocol{nodes: 3, holders: 2, losses: 3},
		protocol{nodes: 3, holders: 2, losses: 1, clock: true},
	)
}

func TestStressNumbersRiseInEveryLargerWorld(t *testing.T) {
	t.Parallel()
	numbersRise(t,
		protocol{nodes: 3, holders: 3, losses: 1},
		protocol{nodes: 3, holders: 3, clock: true},
		protocol{nodes: 4, holders: 2, losses: 1},
		protocol{nodes: 5, holders: 2, losses: 1},
	)
	if os.Getenv(envSearch) != "" {
		numbersRise(t,
			protocol{nodes: 3, holders: 3, losses: 3, clock: true},
			protocol{nodes: 3, holders: 4, losses: 2},
			protocol{nodes: 4, holders: 3, losses: 2},
			protocol{nodes: 5, holders: 2, losses: 3},
			protocol{nodes: 5, holders: 3, losses: 1},
		)
	}
}

func numbersRise(t *testing.T, sound ...protocol) {
	t.Helper()
	for _, p := range sound {
		worlds, how := p.search(numbers, holders)
		require.Empty(t, how, "%d nodes, %d holders, %d losses", p.nodes, p.holders, p.losses)
		t.Logf("%d nodes, %d holders, %d losses: safe in all of %d worlds", p.nodes, p.holders, p.losses, worlds)
	}
}

// hazard R14
func TestStressEveryPartOfTheProtocolIsNeeded(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]protocol{
		"no second round": {holders: 3, oneRound: true},
		"a second round though another holder has the lock": {holders: 2, anyWriter: true},
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

const strode = 60 // steps of each sequence

// The scripts, on real servers, behave as the model that was searched: both run the same
// long random sequences of steps.
func TestTheScriptsDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	scriptsFollowTheModel(t, 8, 1)
}

func TestStressTheScriptsDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	scriptsFollowTheModel(t, 40, 11)
}

// scriptsFollowTheModel runs so many sequences. Each operation must occur at least least
// times. The seeds are always the same.
func scriptsFollowTheModel(t *testing.T, sequences uint64, least int) {
	t.Helper()
	r := &replay{protocol: protocol{nodes: 3, holders: 4, losses: 3}, runs: map[string]int{}}
	nodes := servers(t, r.nodes)
	for n := range r.nodes {
		r.clients = append(r.clients, nodes[string(rune('a'+n))].Client())
	}
	for seed := range sequences {
		rng := rand.New(rand.NewPCG(seed, 14))
		w := world{losses: uint8(r.losses)}
		r.found(t)
		for range strode {
			var by []step
			var to []world
			r.steps(w, func(s step, after world) { by, to = append(by, s), append(to, after) })
			if len(by) == 0 {
				break
			}
			pick := rng.IntN(len(by))
			for range 2 { // otherwise all holders would soon have given up, and little would happen
				if by[pick].verb == "loses its memory" || by[pick].verb == "gives up, or its time does" {
					pick = rng.IntN(len(by))
				}
			}
			r.runs[by[pick].verb]++
			r.step(t, seed, w, by[pick])
			w = to[pick]
			require.Equal(t, w.seen(r.nodes), r.seen(t), "seed %d: after %s", seed, by[pick])
		}
	}
	for _, verb := range []string{
		"locks", "writes its number to", "loses its lock at", "loses its memory", "is a member again",
	} {
		require.GreaterOrEqual(t, r.runs[verb], least, "%s: in too few of the sequences", verb)
	}
}

// replay repeats on the real servers what happens in the model.
type replay struct {
	protocol
	clients []*redis.Client
	runs    map[string]int // how often each operation ran
}

func (r *replay) found(t *testing.T) {
	for n, client := range r.clients {
		require.NoError(t, client.FlushAll(t.Context()).Err())
		require.NoError(t, client.Set(t.Context(), "q:quorum:member", r.marker(n)+run(t, client), 0).Err())
	}
}

func (r *replay) marker(n int) string {
	return fmt.Sprintf("fencepost-quorum/1 ID 1000 volatile a,b,c %c ", 'a'+n)
}

// step also sends messages that must have no effect in w: one of every holder to every
// node that refuses it.
func (r *replay) step(t *testing.T, seed uint64, w world, s step) {
	for h := range r.holders {
		for n := range r.nodes {
			at, begun := w.places[n], w.attempts[h].phase != idle
			if begun && (at.unrecovered || at.holder != 0 && at.holder != uint8(h+1)) {
				word := map[bool]string{true: "unrecovered", false: "held"}[at.unrecovered]
				require.Equal(t, word, r.ask(t, h, n)[0], "seed %d: the first round", seed)
			}
			if number := w.attempts[h].number; number > 0 && (at.unrecovered || at.holder != uint8(h+1)) {
				word := map[bool]string{true: "unrecovered", false: "lost"}[at.unrecovered]
				require.Equal(t, word, r.write(t, h, n, number)[0], "seed %d: the second round", seed)
			}
		}
	}
	switch s.verb {
	case "locks":
		require.Equal(t, "granted", r.ask(t, s.holder, s.node)[0])
	case "writes its number to":
		require.Equal(t, "written", r.write(t, s.holder, s.node, w.attempts[s.holder].number)[0])
	case "loses its lock at":
		require.NoError(t, redisquorum.WithdrawScript.Run(t.Context(), r.clients[s.node],
			[]string{"q:quorum:lock:r"}, value(s.holder)).Err())
	case "loses its memory":
		require.NoError(t, r.clients[s.node].FlushAll(t.Context()).Err())
	case "reads the counter of":
		highest := r.run(t, s.other, redisquorum.CountersScript, []string{"q:quorum:counter:0"})
		require.Equal(t, strconv.Itoa(int(w.places[s.other].counter)), highest[2])
	case "is a member again":
		r.join(t, s.node, w.places[s.node].highest)
	}
}

func (r *replay) join(t *testing.T, n int, highest uint8) {
	keys := []string{"q:quorum:counter:0"}
	unrecovered := r.run(t, n, redisquorum.CountersScript, keys)
	require.Equal(t, "unrecovered", unrecovered[0])
	require.Equal(t, "unrecovered", r.run(t, n, redisquorum.RejoinScript, keys, 0, "another note", highest)[0])
	require.Equal(t, "unrecovered", r.run(t, n, redisquorum.RejoinScript, keys, 1<<40, unrecovered[2], highest)[0], "too early")
	require.Equal(t, "joined", r.run(t, n, redisquorum.RejoinScript, keys, 0, unrecovered[2], highest)[0])
}

func (r *replay) ask(t *testing.T, h, n int) []any {
	keys := []string{"q:quorum:lock:r", "q:quorum:counter:0"}
	attempt, holder, _ := strings.Cut(value(h), " ")
	return r.run(t, n, redisquorum.AcquireScript, keys, attempt, holder, 1<<40)
}

func (r *replay) write(t *testing.T, h, n int, number uint8) []any {
	keys := []string{"q:quorum:lock:r", "q:quorum:counter:0"}
	return r.run(t, n, redisquorum.WriteScript, keys, value(h), number)
}

func value(h int) string { return fmt.Sprintf("%019d %c", h, 'A'+h) }

func (r *replay) run(t *testing.T, n int, script *redis.Script, keys []string, args ...any) []any {
	keys = append([]string{"q:quorum:member", "q:quorum:unrecovered"}, keys...)
	args = append([]any{r.marker(n), ""}, args...)
	list, err := script.Run(t.Context(), r.clients[n], keys, args...).Slice()
	require.NoError(t, err)
	return list
}

// seen returns the observable state of the nodes: counter, lock, and whether it votes.
func (r *replay) seen(t *testing.T) []string {
	var all []string
	for n, client := range r.clients {
		get := func(key string) string { return client.Get(t.Context(), "q:quorum:"+key).Val() }
		counter, lock := get("counter:0"), get("lock:r")
		if counter == "" {
			counter = "0"
		}
		if lock != "" {
			lock = lock[20:]
		}
		all = append(all, fmt.Sprint(counter, lock, get("member") == r.marker(n)+run(t, client)))
	}
	return all
}

func (w *world) seen(nodes int) []string {
	var all []string
	for _, at := range w.places[:nodes] {
		lock := ""
		if at.holder > 0 {
			lock = string('A' + rune(at.holder-1))
		}
		all = append(all, fmt.Sprint(at.counter, lock, !at.unrecovered))
	}
	return all
}

// run returns the run id of a server.
func run(t *testing.T, client *redis.Client) string {
	t.Helper()
	info, err := client.Info(context.WithoutCancel(t.Context()), "server").Result()
	require.NoError(t, err)
	_, rest, _ := strings.Cut(info, "run_id:")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}
