package lock_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// reads is an Inspector whose reads are given. The next one hangs.
type reads struct {
	token.Inspector
	states []token.State
	errs   map[int]error
	n      int
	last   func() // called before the read that hangs
	gaps   []time.Duration
	at     time.Time
}

func (r *reads) Inspect(ctx context.Context, _ string) (token.State, error) {
	n := r.n
	if r.n++; n > 0 {
		r.gaps = append(r.gaps, time.Since(r.at))
	}
	r.at = time.Now()
	if err := r.errs[n]; err != nil {
		return token.State{}, err
	}
	if n >= len(r.states) {
		if r.last != nil {
			r.last()
		}
		<-ctx.Done()
		return token.State{}, context.Cause(ctx)
	}
	return r.states[n], nil
}

func held(number int64, holder string) token.State {
	return token.State{Resource: account, Number: number, Holder: holder}
}

// seen is what an iteration has yielded: holders, "-" for none, and "!" for an error.
func seen(t *testing.T, all iter.Seq2[lock.Leader, error]) string {
	var text []string
	last := int64(0)
	for l, err := range all {
		switch {
		case err != nil:
			require.Zero(t, l)
			text = append(text, "!")
			continue
		case l.Holder == "":
			l.Holder = "-"
		}
		require.GreaterOrEqual(t, l.Number, last)
		last = l.Number
		text = append(text, l.Holder)
	}
	return strings.Join(text, " ")
}

// hazard L31
func TestTheNumbersOfAnObserverNeverFall(t *testing.T) {
	t.Parallel()
	down := token.ErrUnreachable
	for name, c := range map[string]struct {
		states []token.State
		errs   map[int]error
		want   string
	}{
		"each leader once":                 {[]token.State{held(1, "a"), held(1, "a"), held(2, "b"), held(2, "b"), held(2, ""), held(3, "c")}, nil, "a b - c"},
		"there was none before":            {[]token.State{held(0, ""), held(0, ""), held(1, "a")}, nil, "- a"},
		"a replica is behind":              {[]token.State{held(1, "a"), held(2, "b"), held(1, "a"), held(1, ""), held(2, "b"), held(3, "c")}, nil, "a b c"},
		"it falls below what was not news": {[]token.State{held(1, "a"), held(5, "a"), held(3, "b"), held(6, "c")}, nil, "a c"},
		"the number of one leader rises":   {[]token.State{held(1, "a"), held(5, "a"), held(6, "b")}, nil, "a b"},
		"a lease is found alive":           {[]token.State{held(1, "a"), held(1, ""), held(1, "a")}, nil, "a - a"},
		"an outage":                        {[]token.State{held(1, "a"), {}, {}, held(1, "a"), held(1, "a")}, map[int]error{1: down, 2: down}, "a ! ! a"},
		"a replica after an outage":        {[]token.State{held(2, "b"), {}, held(1, "a"), held(2, "b")}, map[int]error{1: down}, "b ! b"},
		"a wrong password":                 {[]token.State{held(1, "a"), {}, held(2, "b")}, map[int]error{1: errCut}, "a !"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := &reads{states: c.states, errs: c.errs}
				o := lock.Observer{Inspector: r, Resource: account}
				r.last = cancel
				require.Equal(t, c.want, seen(t, o.All(ctx)))
			})
		})
	}
	t.Run("the twin calls Leader, and returns to a former leader", func(t *testing.T) {
		t.Parallel()
		o := lock.Observer{Inspector: &reads{states: []token.State{held(2, "b"), held(1, "a")}}, Resource: account}
		for _, want := range []lock.Leader{{Number: 2, Holder: "b", Value: "b"}, {Number: 1, Holder: "a", Value: "a"}} {
			got, err := o.Leader(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

func TestAnObserverSeesEachTerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		iss := new(memtoken.Issuer)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := lock.Observer{Inspector: iss, Resource: account, Interval: time.Millisecond}
		go func() {
			defer cancel()
			for _, value := range []string{"10.0.0.7:8080", "https://web/7", "", "[::1]:80"} {
				time.Sleep(time.Minute)
				c := candidate(iss)
				c.Locker.Name, c.Value = "billing", value
				assert.NoError(t, c.Run(t.Context(), func(ctx context.Context) error {
					time.Sleep(time.Minute)
					got, err := o.Leader(ctx)
					require.NoError(t, err)
					require.Equal(t, fromContext(t, ctx, account).Holder, got.Holder)
					require.Positive(t, got.Remaining)
					require.LessOrEqual(t, got.Remaining, ttl)
					return err
				}))
			}
		}()
		var values []string
		for l, err := range o.All(ctx) {
			require.NoError(t, err)
			values = append(values, l.Value)
		}
		require.Equal(t, []string{"", "10.0.0.7:8080", "", "https://web/7", "", "billing", "", "[::1]:80"}, values[:8])
	})
}

func TestAnObserverReadsInIntervals(t *testing.T) {
	t.Parallel()
	for name, interval := range map[string]time.Duration{"each second": 0, "as set": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := &reads{states: make([]token.State, 10_000)}
				o := lock.Observer{Inspector: r, Resource: account, Interval: interval}
				ctx, cancel := context.WithTimeout(t.Context(), 1000*max(interval, time.Second))
				defer cancel()
				require.Equal(t, "-", seen(t, o.All(ctx)))
				require.InDelta(t, 1000, r.n, 150)
				shortest, longest := slices.Min(r.gaps), slices.Max(r.gaps)
				require.InDelta(t, 0.5, shortest.Seconds()/max(interval, time.Second).Seconds(), 0.1)
				require.InDelta(t, 1.5, longest.Seconds()/max(interval, time.Second).Seconds(), 0.1)
			})
		})
	}
}

func TestAReadThatHangsIsAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := lock.Observer{Inspector: &reads{}, Resource: account}
		start := time.Now()
		_, err := o.Leader(t.Context())
		require.EqualError(t, err, "lock: observe account/42: "+token.ErrUnreachable.Error()+": no reply in time")
		require.ErrorIs(t, err, token.ErrUnreachable)
		require.Equal(t, 5*time.Second, time.Since(start))

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errLead) })
		_, err = o.Leader(ctx)
		require.Equal(t, errLead, err)
		require.Empty(t, seen(t, o.All(ctx)))
		synctest.Wait()
	})
}

func TestAnIterationEndsWithItsLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &reads{states: []token.State{held(1, "a"), held(2, "b")}, errs: map[int]error{1: token.ErrUnreachable}}
		o := lock.Observer{Inspector: r, Resource: account}
		for range 2 {
			for range o.All(t.Context()) {
				break
			}
		}
		require.Equal(t, 2, r.n)
	})
}

func TestObserversThatCannotRead(t *testing.T) {
	t.Parallel()
	var invalid *token.InvalidError
	for _, err := range (&lock.Observer{Inspector: new(memtoken.Issuer)}).All(t.Context()) {
		require.ErrorAs(t, err, &invalid)
	}
	for _, err := range (&lock.Observer{Resource: account}).All(t.Context()) {
		require.EqualError(t, err, "lock: Observer has no Inspector")
	}
}

// A holder that no Locker has made has no Value of its own.
func TestAHolderThatNoLockerHasMade(t *testing.T) {
	t.Parallel()
	for holder, want := range map[string]string{
		"a": "a", "a/b": "a/b", "a/b:1": "a/b:1", "1/b:1:2": "b", "h:1/b:1:2": "b", "": "", "/": "/", "h:1/:1:2": "h:1/:1:2",
		lock.NewHolder(strings.Repeat("h", 200), "10.0.0.7:80"): "10.0.0.7:80",
	} {
		got, err := (&lock.Observer{Inspector: &reads{states: []token.State{held(1, holder)}}, Resource: account}).Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got.Value)
	}
}
