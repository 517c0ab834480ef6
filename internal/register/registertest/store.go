package registertest

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token"
)

const (
	limit = time.Minute // which only a hang exceeds
	long  = time.Hour   // a ttl that does not end
)

// names are legal names of resources, with the syntax of the stores' keys.
var names = []string{
	"a", "a/", "a/b", "a//b", "a-b", "A", "=", "=2F", "a=2F", "a.b", "my-operator.example.com", "*", ">", "$x", "clock", ".clock", "zookeeper",
	"ä", "日本/%2F?#&", `"\\`, "..", ".", " ", "-x", "x-", "\u00ff\U0010FFFF",
	strings.Repeat("x", token.MaxNameBytes), strings.Repeat("X", token.MaxNameBytes), strings.Repeat("/", token.MaxNameBytes),
}

// TestNames checks that legal names have different records, which Locks lists, and that a
// newcomer takes over from a dead holder without waiting, by the server's clock.
func TestNames(t *testing.T, newIssuer func() register.Interface) {
	t.Helper()
	iss, want := newIssuer(), map[string]int64{}
	for _, name := range names {
		grant, err := iss.Acquire(t.Context(), name, "names", long)
		require.NoError(t, err, "%q", name)
		_, err = iss.Renew(t.Context(), grant.Token, long)
		require.NoError(t, err, "%q", name)
		want[name] = grant.Token.Number
	}
	for _, prefix := range []string{"", "a", "a/", "日", "\u00ff\U0010FFFF", "none"} {
		got, all := map[string]int64{}, maps.Clone(want)
		maps.DeleteFunc(all, func(name string, _ int64) bool { return !strings.HasPrefix(name, prefix) })
		for state, err := range iss.Locks(t.Context(), prefix) {
			require.NoError(t, err)
			if state.Holder == "names" { // another test may have locks in this store too
				got[state.Resource] = state.Number
			}
		}
		require.Equal(t, all, got)
	}
	for _, err := range iss.Locks(t.Context(), "") {
		require.NoError(t, err)
		break
	}
	dead, err := iss.Acquire(t.Context(), "dead", "h", time.Millisecond)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		g, err := newIssuer().Acquire(t.Context(), "dead", "newcomer", long)
		return err == nil && g.Token.Number > dead.Token.Number && newIssuer().Release(t.Context(), g.Token) == nil
	}, limit, 100*time.Millisecond)
}

// TestHandOver checks that iss lists and renews a lock, and that a waiter of waiters gets it
// when iss has released it, after meanwhile if that is not nil.
func TestHandOver(t *testing.T, iss, waiters register.Interface, meanwhile func()) {
	t.Helper()
	const resource = "handed"
	g, err := iss.Acquire(t.Context(), resource, "h", long)
	require.NoError(t, err)
	granted := make(chan token.Grant, 1)
	go func() {
		g, err := waiters.Wait(context.WithoutCancel(t.Context()), resource, "waiter", long)
		assert.NoError(t, err)
		granted <- g
	}()
	require.Eventually(t, func() bool {
		state, err := iss.Inspect(t.Context(), resource)
		return err == nil && len(state.Waiters) == 1
	}, limit, time.Millisecond)
	var listed []string
	for state, err := range iss.Locks(t.Context(), resource) {
		require.NoError(t, err)
		listed = append(listed, state.Resource+" of "+state.Holder)
	}
	require.Equal(t, []string{"handed of h"}, listed)
	_, err = iss.Renew(t.Context(), g.Token, long)
	require.NoError(t, err)
	if meanwhile != nil {
		meanwhile()
	}
	require.NoError(t, iss.Release(t.Context(), g.Token))
	require.Greater(t, (<-granted).Token.Number, g.Token.Number)
}

// TestStore checks what Swap and Watch return, and the clock. forget deletes the record of a
// key. watched reports whether a Watch has reached the server; nil if that is not seen.
func TestStore(t *testing.T, store register.Store, forget func(key string), watched func() bool) {
	t.Helper()
	key := strings.Repeat("/", token.MaxNameBytes)
	e, err := store.Load(t.Context(), key)
	require.NoError(t, err)
	require.Empty(t, e.Version)
	clocker, apart := store.(register.Clocker)
	if apart {
		e.Clock, err = clocker.Clock(t.Context())
		require.NoError(t, err)
	}
	require.WithinDuration(t, time.Now(), e.Clock, limit)

	swap := func(old string, number int64) (register.Entry, bool) {
		t.Helper()
		e, swapped, err := store.Swap(t.Context(), key, old, register.Record{Number: number})
		require.NoError(t, err)
		if !apart {
			require.WithinDuration(t, time.Now(), e.Clock, limit)
		}
		return e, swapped
	}
	// after returns what a Watch returns of a change.
	after := func(ctx context.Context, seen string, change func()) (e register.Entry, err error) {
		done := make(chan struct{})
		go func() {
			e, err = store.Watch(ctx, key, seen)
			close(done)
		}()
		if watched != nil {
			require.Eventually(t, watched, limit, time.Millisecond)
		}
		change()
		<-done
		return e, err
	}
	last := register.Entry{}
	for n := range int64(3) {
		var written register.Entry
		var swapped bool
		e, err := after(t.Context(), last.Version, func() { written, swapped = swap(last.Version, n) })
		require.NoError(t, err)
		require.True(t, swapped)
		require.NotEqual(t, last.Version, written.Version)
		require.Equal(t, written.Version, e.Version)
		require.Equal(t, n, e.Number)
		last, e = written, last
		for _, old := range []string{"", e.Version} {
			now, swapped := swap(old, 7)
			require.False(t, swapped)
			require.Equal(t, last.Version, now.Version)
			require.Equal(t, n, now.Number)
		}
	}
	e, err = after(t.Context(), last.Version, func() { forget(key) })
	require.NoError(t, err)
	require.Zero(t, e.Record)
	now, swapped := swap(last.Version, 7)
	require.False(t, swapped, "the record was deleted")
	require.Zero(t, now.Record)
	require.Equal(t, now.Version, e.Version)

	first, swapped := swap(now.Version, 1)
	require.True(t, swapped)
	second, swapped := swap(first.Version, 2)
	require.True(t, swapped)
	third, swapped := swap(second.Version, 3)
	require.True(t, swapped)
	e, err = store.Watch(t.Context(), key, first.Version)
	require.NoError(t, err)
	require.Equal(t, third.Version, e.Version, "of several events, the newest")
	ctx, cancel := context.WithCancel(t.Context())
	_, err = after(ctx, third.Version, cancel)
	require.Error(t, err)
}
