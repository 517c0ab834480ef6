package inflight_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/inflight"
	"github.com/fencepost/fencepost/token"
)

// request is one slot, with a count of its wake-ups.
type request struct {
	inflight.Slot
	woken int
}

func (r *request) Wake() { r.woken++ }

// queue is a queue under test with its requests by name. A name is the holder's letter
// and the number, as in "a33"; "a33'" is a second request under the same token.
type queue struct {
	t *testing.T
	inflight.Queue
	requests map[string]*request
}

func newQueue(t *testing.T) *queue {
	return &queue{t: t, requests: map[string]*request{}}
}

// enter adds the request with that name, and returns the names of the requests that it
// cancels.
func (q *queue) enter(name string) (cancelled []string, waits bool, err error) {
	number := int64(10*(name[1]-'0') + name[2] - '0')
	r := &request{}
	r.Token, r.Waiter = &token.Token{Resource: "account/42", Number: number, Holder: name[:1]}, r
	q.requests[name] = r
	older, waits, err := q.Enter(&r.Slot)
	for _, o := range older {
		for other, r := range q.requests {
			if o == &r.Slot {
				cancelled = append(cancelled, other)
			}
		}
	}
	return cancelled, waits, err
}

func (q *queue) runs(name string, cancels ...string) {
	q.t.Helper()
	cancelled, waits, err := q.enter(name)
	require.NoError(q.t, err)
	require.False(q.t, waits, "%s runs", name)
	require.Equal(q.t, cancels, cancelled)
	q.running(name)
}

func (q *queue) waits(name string, cancels ...string) {
	q.t.Helper()
	cancelled, waits, err := q.enter(name)
	require.NoError(q.t, err)
	require.True(q.t, waits, "%s waits", name)
	require.Equal(q.t, cancels, cancelled)
	q.waiting(name)
}

func (q *queue) refused(name string) {
	q.t.Helper()
	cancelled, waits, err := q.enter(name)
	var stale *guard.StaleError
	require.ErrorAs(q.t, err, &stale)
	require.Equal(q.t, *q.requests[name].Token, stale.Token)
	require.Zero(q.t, stale.Mark, "the queue has no mark to report")
	require.False(q.t, waits)
	require.Empty(q.t, cancelled)
	q.out(name)
}

func (q *queue) leave(name string) { q.Leave(&q.requests[name].Slot) }

// running, waiting, admitted, out and sentAway check the state of a request.
func (q *queue) running(name string)  { q.t.Helper(); q.is(name, true, 0) }
func (q *queue) waiting(name string)  { q.t.Helper(); q.is(name, false, 0) }
func (q *queue) admitted(name string) { q.t.Helper(); q.is(name, true, 1) }
func (q *queue) out(name string)      { q.t.Helper(); q.is(name, false, 0) }
func (q *queue) sentAway(name string) { q.t.Helper(); q.is(name, false, 1) }

func (q *queue) is(name string, running bool, woken int) {
	q.t.Helper()
	require.Equal(q.t, running, q.requests[name].Running, "%s is running", name)
	require.Equal(q.t, woken, q.requests[name].woken, "how often %s was woken", name)
}

func TestTheQueue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(q *queue){
		"requests under one token run at the same time": func(q *queue) {
			q.runs("a33")
			q.runs("a33'")
			q.leave("a33")
			q.runs("a33''")
			q.running("a33'")
		},
		"a newer token cancels all running requests once, and waits for the last of them": func(q *queue) {
			q.runs("a33")
			q.runs("a33'")
			cancelled, waits, err := q.enter("b34")
			require.NoError(q.t, err)
			require.True(q.t, waits)
			require.ElementsMatch(q.t, []string{"a33", "a33'"}, cancelled)
			q.waits("b34'")
			q.leave("a33")
			q.waiting("b34")
			q.leave("a33'")
			q.admitted("b34")
			q.admitted("b34'")
		},
		"an older token is refused while a newer one waits": func(q *queue) {
			q.runs("a33")
			q.waits("b34", "a33")
			q.refused("a33'")
			q.refused("c32")
			q.leave("a33")
			q.admitted("b34")
		},
		"an older token is refused while a newer one runs": func(q *queue) {
			q.runs("b34")
			q.refused("a33")
			q.running("b34")
		},
		"a still newer token removes the waiting request, and takes its place": func(q *queue) {
			q.runs("a33")
			q.waits("b34", "a33")
			q.waits("b34'")
			q.waits("c35", "a33")
			q.sentAway("b34")
			q.sentAway("b34'")
			require.Equal(q.t, 1, q.Waiting())
			q.leave("a33")
			q.admitted("c35")
			q.sentAway("b34")
		},
		"equal numbers of different holders take turns, and cancel none": func(q *queue) {
			q.runs("a33")
			q.waits("b33")
			q.waits("c33")
			q.waits("b33'")
			q.leave("a33")
			q.admitted("b33")
			q.admitted("b33'")
			q.waiting("c33")
			q.leave("b33")
			q.waiting("c33")
			q.leave("b33'")
			q.admitted("c33")
		},
		"a request under the running token overtakes another holder that waits": func(q *queue) {
			q.runs("a33")
			q.waits("b33")
			q.runs("a33'")
			q.leave("a33")
			q.waiting("b33")
			q.leave("a33'")
			q.admitted("b33")
		},
		"the newest number counts for as long as a request is in the queue": func(q *queue) {
			q.runs("a33")
			q.waits("b35", "a33")
			q.leave("b35")
			q.refused("c34")
			q.leave("a33")
			require.True(q.t, q.IsEmpty())
			q.runs("c34'")
		},
		"the last request resets the queue": func(q *queue) {
			q.runs("b35")
			q.leave("b35")
			require.True(q.t, q.IsEmpty())
			q.runs("a33")
		},
		"a waiting request may leave": func(q *queue) {
			q.runs("a33")
			q.waits("b34", "a33")
			q.waits("b34'")
			q.leave("b34")
			require.Equal(q.t, 1, q.Waiting())
			q.leave("a33")
			q.out("b34")
			q.admitted("b34'")
		},
		"a request that is in no queue may leave": func(q *queue) {
			q.runs("a33")
			q.waits("b34", "a33")
			q.waits("c35", "a33")
			q.refused("a32")
			for _, name := range []string{"b34", "a32", "b34"} {
				q.leave(name)
			}
			require.Equal(q.t, 1, q.Waiting())
			q.leave("a33")
			q.leave("a33")
			q.admitted("c35")
			q.leave("c35")
			require.True(q.t, q.IsEmpty())
		},
		"a copy of the queue can be used instead of it": func(q *queue) {
			q.runs("a33")
			q.Queue = func(q inflight.Queue) inflight.Queue { return q }(q.Queue)
			q.waits("b34", "a33")
			q.leave("a33")
			q.admitted("b34")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newQueue(t))
		})
	}
}

// In every order in which four requests of two tokens and two holders can enter and
// leave, two tokens never run at the same time, and the queue ends empty.
func TestTwoTokensNeverRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	names := []string{"a33", "b33", "c34", "c34'"}
	var orders func(steps []string, entered, left map[string]bool)
	count := 0
	orders = func(steps []string, entered, left map[string]bool) {
		if len(left) == len(names) {
			count++
			play(t, steps)
			return
		}
		for _, name := range names {
			set := left
			if !entered[name] {
				set = entered
			}
			if set[name] {
				continue
			}
			set[name] = true
			orders(append(steps, name), entered, left)
			delete(set, name)
		}
	}
	orders(nil, map[string]bool{}, map[string]bool{})
	require.Equal(t, 2520, count) // 8! / 2⁴
}

// play has a request enter at the first occurrence of its name in steps, and leave at the
// second.
func play(t *testing.T, steps []string) {
	t.Helper()
	q := newQueue(t)
	for _, name := range steps {
		if q.requests[name] == nil {
			_, _, _ = q.enter(name)
		} else {
			q.leave(name)
		}
		var running *request
		for _, r := range q.requests {
			if r.Running && running != nil {
				require.Equal(t, *running.Token, *r.Token, "%v: two tokens run", steps)
			}
			if r.Running {
				running = r
			}
		}
		require.False(t, running == nil && q.Waiting() > 0, "%v: a request waits although nothing runs", steps)
	}
	require.True(t, q.IsEmpty(), "%v", steps)
}
