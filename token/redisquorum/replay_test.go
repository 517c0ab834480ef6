package redisquorum_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token/redisquorum"
)

const (
	walks  = 40
	strode = 60 // steps of each
)

// The scripts, on real servers, do what the model that was searched does: the
// same long random stories, told to both.
func TestTheScriptsDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	r := &replay{protocol: protocol{nodes: 3, holders: 4, losses: 3}, told: map[string]int{}}
	nodes := servers(t, r.nodes)
	for n := range r.nodes {
		r.clients = append(r.clients, nodes[string(rune('a'+n))].Client())
	}
	for seed := range uint64(walks) {
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
			for range 2 { // else all have given up and forgotten before much has happened
				if by[pick].verb == "loses its memory" || by[pick].verb == "gives up, or its time does" {
					pick = rng.IntN(len(by))
				}
			}
			r.told[by[pick].verb]++
			r.tell(t, seed, w, by[pick])
			w = to[pick]
			require.Equal(t, w.seen(r.nodes), r.seen(t), "seed %d: after %s", seed, by[pick])
		}
	}
	for _, verb := range []string{
		"locks", "writes its number to", "loses its lock at", "loses its memory", "is a member again",
	} {
		require.Greater(t, r.told[verb], walks/4, "%s: in too few of the stories", verb)
	}
}

// replay has the real servers do what happens in the model.
type replay struct {
	protocol
	clients []*redis.Client
	told    map[string]int // how often each verb
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

// tell also sends what must have no effect in w: a message of everybody to
// everybody who will not have it.
func (r *replay) tell(t *testing.T, seed uint64, w world, s step) {
	for h := range r.holders {
		for n := range r.nodes {
			at, begun := w.places[n], w.attempts[h].phase != idle
			if begun && (at.blank || at.holder != 0 && at.holder != uint8(h+1)) {
				word := map[bool]string{true: "blank", false: "held"}[at.blank]
				require.Equal(t, word, r.ask(t, h, n)[0], "seed %d: the first round", seed)
			}
			if number := w.attempts[h].number; number > 0 && (at.blank || at.holder != uint8(h+1)) {
				word := map[bool]string{true: "blank", false: "lost"}[at.blank]
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
	blank := r.run(t, n, redisquorum.CountersScript, keys)
	require.Equal(t, "blank", blank[0])
	require.Equal(t, "blank", r.run(t, n, redisquorum.JoinScript, keys, 0, "another note", highest)[0])
	require.Equal(t, "blank", r.run(t, n, redisquorum.JoinScript, keys, 1<<40, blank[2], highest)[0], "too early")
	require.Equal(t, "joined", r.run(t, n, redisquorum.JoinScript, keys, 0, blank[2], highest)[0])
}

func (r *replay) ask(t *testing.T, h, n int) []any {
	keys := []string{"q:quorum:lock:r", "q:quorum:counter:0"}
	ballot, holder, _ := strings.Cut(value(h), " ")
	return r.run(t, n, redisquorum.AcquireScript, keys, ballot, holder, 1<<40)
}

func (r *replay) write(t *testing.T, h, n int, number uint8) []any {
	keys := []string{"q:quorum:lock:r", "q:quorum:counter:0"}
	return r.run(t, n, redisquorum.WriteScript, keys, value(h), number)
}

func value(h int) string { return fmt.Sprintf("%019d %c", h, 'A'+h) }

func (r *replay) run(t *testing.T, n int, script *redis.Script, keys []string, args ...any) []any {
	keys = append([]string{"q:quorum:member", "q:quorum:blank"}, keys...)
	args = append([]any{r.marker(n), ""}, args...)
	list, err := script.Run(t.Context(), r.clients[n], keys, args...).Slice()
	require.NoError(t, err)
	return list
}

// seen is what can be seen of the nodes: counter, lock, and whether it votes.
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
		all = append(all, fmt.Sprint(at.counter, lock, !at.blank))
	}
	return all
}

// run is the id of a server's run.
func run(t *testing.T, client *redis.Client) string {
	t.Helper()
	info, err := client.Info(context.WithoutCancel(t.Context()), "server").Result()
	require.NoError(t, err)
	_, rest, _ := strings.Cut(info, "run_id:")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}
