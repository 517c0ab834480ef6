package etcdguard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestAStaleTransactionIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var told []error
	e.guard.Hooks.Refused = func(_ context.Context, err error) { told = append(told, err) }
	require.NoError(t, e.put(with(t.Context(), 9, "a"), e.guard, "first"))
	require.NoError(t, e.put(with(t.Context(), 10, "b"), e.guard, "second"))
	before, err := e.client.Get(t.Context(), e.key)
	require.NoError(t, err)
	for _, c := range []struct {
		tok  token.Token
		text string
	}{
		{tok(9, "a"), "guard: stale token account/42#9: overtaken by #10 of b"},
		{tok(10, "a"), "guard: token account/42#10 collides: b has the same number"},
	} {
		told = nil
		err := e.put(token.NewContext(t.Context(), c.tok), e.guard, "stale")
		require.EqualError(t, err, c.text)
		require.Equal(t, []error{err}, told)
		require.Equal(t, &guard.StaleError{Token: c.tok, Mark: guard.Mark{Number: 10, Holder: "b"}}, err)
	}
	after, err := e.client.Get(t.Context(), e.key)
	require.NoError(t, err)
	require.Equal(t, before.Kvs, after.Kvs)
	require.Equal(t, "000000000000010 b", e.mark())
}

func TestATransactionTakesOneRequest(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var sent []string
	g := e.over(connect(t, e.addr, requests(&sent)))
	for _, c := range []struct {
		what string
		tok  token.Token
		want error
	}{
		{"no mark", tok(33, "a"), nil},
		{"the mark's own token", tok(33, "a"), nil},
		{"a raise", tok(34, "b"), nil},
		{"a refusal", tok(33, "a"), guard.ErrStale},
	} {
		for _, do := range []func() error{
			func() error { return e.put(token.NewContext(t.Context(), c.tok), g, "x") },
			func() error { return g.Admit(t.Context(), c.tok) },
		} {
			sent = nil
			require.ErrorIs(t, do(), c.want, c.what)
			require.Equal(t, []string{"/etcdserverpb.KV/Txn"}, sent, c.what)
		}
	}
	_, version := e.get(e.guard.Prefix + resource)
	require.EqualValues(t, 2, version, "a mark that stays is not written")
}

// The caller's compares decide between Then and Else. They refuse no token.
func TestTheCallersOwnCompares(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	commit := func(number int64, expected string) (*clientv3.TxnResponse, error) {
		return e.guard.Txn(with(t.Context(), number, "a"), resource).
			If(clientv3.Compare(clientv3.CreateRevision(e.key), ">", 0)).If(clientv3.Compare(clientv3.Value(e.key), "=", expected)).
			Then(clientv3.OpPut(e.key, "second", clientv3.WithPrevKV())).Then(clientv3.OpGet(e.key)).
			Else(clientv3.OpGet(e.key)).Else(clientv3.OpPut(e.key+"/else", expected)).Commit()
	}
	require.NoError(t, e.put(with(t.Context(), 33, "a"), e.guard, "first"))

	resp, err := commit(34, "another")
	require.NoError(t, err)
	require.False(t, resp.Succeeded)
	require.Len(t, resp.Responses, 2)
	require.Equal(t, "first", string(resp.Responses[0].GetResponseRange().Kvs[0].Value))
	value, _ := e.get(e.key + "/else")
	require.Equal(t, "another", value)
	require.Equal(t, "000000000000034 a", e.mark(), "the token was admitted")

	resp, err = commit(34, "first")
	require.NoError(t, err)
	require.True(t, resp.Succeeded)
	require.Equal(t, "first", string(resp.Responses[0].GetResponsePut().PrevKv.Value))
	require.Equal(t, "second", string(resp.Responses[1].GetResponseRange().Kvs[0].Value))
	found, err := e.client.Get(t.Context(), e.key)
	require.NoError(t, err)
	require.Equal(t, found.Kvs[0].ModRevision, resp.Header.Revision, "the revision at which it was applied")

	for _, expected := range []string{"another", "second"} {
		resp, err = commit(33, expected)
		require.ErrorIs(t, err, guard.ErrStale, "whatever its compares are")
		require.Nil(t, resp)
	}
	resp, err = e.guard.Txn(with(t.Context(), 34, "a"), resource).Commit()
	require.NoError(t, err)
	require.True(t, resp.Succeeded)
	require.Empty(t, resp.Responses)
}

func TestOperationsThatWriteMarksAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	require.NoError(t, e.guard.Admit(t.Context(), tok(33, "a")))
	marks := e.guard.Prefix
	above := strings.TrimSuffix(marks, "marks/")
	ctx := with(t.Context(), 33, "a")
	for name, op := range map[string]clientv3.Op{
		"put":                    clientv3.OpPut(marks+resource, "x"),
		"put another's":          clientv3.OpPut(marks+"x", "x"),
		"delete":                 clientv3.OpDelete(marks + resource),
		"delete a prefix":        clientv3.OpDelete(above, clientv3.WithPrefix()),
		"delete below the marks": clientv3.OpDelete(marks+"a", clientv3.WithPrefix()),
		"delete a range":         clientv3.OpDelete(above+"a", clientv3.WithRange(marks+"b")),
		"delete all that follow": clientv3.OpDelete(above, clientv3.WithFromKey()),
		"delete all":             clientv3.OpDelete("", clientv3.WithPrefix()),
		"delete, nested":         clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete(marks + resource)}, nil)}),
	} {
		for _, txn := range []clientv3.Txn{e.guard.Txn(ctx, resource).Then(op), e.guard.Txn(ctx, resource).Else(op)} {
			_, err := txn.Commit()
			require.ErrorContains(t, err, "etcdguard: txn account/42: an operation on ", name)
			require.ErrorContains(t, err, fmt.Sprintf("would write marks, whose keys begin with %q", marks), name)
		}
	}
	require.Equal(t, "000000000000033 a", e.mark())
	for _, op := range []clientv3.Op{
		clientv3.OpGet(marks + resource), clientv3.OpGet(above, clientv3.WithPrefix()),
		clientv3.OpDelete(above, clientv3.WithRange(marks)), clientv3.OpDelete(clientv3.GetPrefixRangeEnd(marks), clientv3.WithRange(above+"z")),
	} {
		_, err := e.guard.Txn(ctx, resource).Then(op).Commit()
		require.NoError(t, err)
	}
	require.Equal(t, "000000000000033 a", e.mark())
}

func TestOperationsThatATransactionMayHave(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	commit := func(n int) error {
		var ops []clientv3.Op
		for i := range n {
			ops = append(ops, clientv3.OpPut(fmt.Sprint(e.key, i), "x"))
		}
		_, err := e.guard.Txn(with(t.Context(), 33, "a"), resource).Then(ops...).Commit()
		return err
	}
	err := commit(127)
	require.ErrorContains(t, err, "too many operations in txn request")
	require.Empty(t, outcomes(err))
	require.Empty(t, e.mark())
	require.NoError(t, commit(126))
}

func TestAKeyThatHoldsNoMark(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"none", "33 a", "900000000000000", "999999999999999 ", "9999999999999999 a"} {
		e := newEnv(t)
		_, err := e.client.Put(t.Context(), e.guard.Prefix+resource, value)
		require.NoError(t, err)
		for _, err := range []error{e.put(with(t.Context(), 33, "a"), e.guard, "x"), e.guard.Admit(t.Context(), tok(33, "a"))} {
			require.ErrorContains(t, err, fmt.Sprintf("account/42: key %q holds no mark", e.guard.Prefix+resource), value)
			require.Empty(t, outcomes(err))
		}
		require.Equal(t, value, e.mark())
		require.Empty(t, e.written())
	}
}

func TestReportOnly(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var told []error
	e.guard.DangerouslyReportOnly = true
	e.guard.Hooks = guard.Hooks{
		Refused:  func(_ context.Context, err error) { t.Errorf("refused: %v", err) },
		Reported: func(_ context.Context, err error) { told = append(told, err) },
	}
	require.NoError(t, e.put(with(t.Context(), 33, "a"), e.guard, "x"))
	require.Empty(t, told)
	mark := guard.Mark{Number: 33, Holder: "a"}
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{
		{with(t.Context(), 32, "b"), &guard.StaleError{Token: tok(32, "b"), Mark: mark}},
		{with(t.Context(), 33, "b"), &guard.StaleError{Token: tok(33, "b"), Mark: mark}},
		{t.Context(), &token.MissingError{Resource: resource}},
		{with(t.Context(), 34, ""), tok(34, "").Validate()},
	} {
		told = nil
		_, before := e.get(e.key)
		resp, err := e.guard.Txn(c.ctx, resource).If(clientv3.Compare(clientv3.Version(e.key), "=", before)).Then(clientv3.OpPut(e.key, "x")).Commit()
		require.NoError(t, err)
		require.True(t, resp.Succeeded)
		require.Equal(t, []error{c.want}, told)
		_, after := e.get(e.key)
		require.Equal(t, before+1, after, "the write was made anyway, once")
		require.Equal(t, "000000000000033 a", e.mark(), "the mark stays")
	}
	told = nil
	require.NoError(t, e.guard.Admit(t.Context(), tok(32, "b")))
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "")))
	require.Len(t, told, 2)
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
	require.Equal(t, "000000000000034 b", e.mark(), "it rises if the token is admitted")

	fresh := newEnv(t)
	fresh.guard.Prefix, fresh.guard.DangerouslyReportOnly, fresh.guard.Hooks = "other/"+fresh.guard.Prefix, true, e.guard.Hooks
	require.NoError(t, fresh.put(t.Context(), fresh.guard, "no token, no mark"))
	require.Empty(t, fresh.mark())
}

func TestAMissingTokenSendsNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	require.ErrorIs(t, e.put(t.Context(), e.guard, "x"), token.ErrMissing)
	require.ErrorIs(t, e.put(with(t.Context(), 33, ""), e.guard, "x"), token.ErrInvalid)
	require.Empty(t, e.written())
}

// Errors of etcd that prove that nothing was applied are not unknown.
func TestErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for text, op := range map[string]clientv3.Op{
		"requested lease not found":              clientv3.OpPut(e.key, "x", clientv3.WithLease(1)),
		"key not found":                          clientv3.OpPut(e.key+"/none", "", clientv3.WithIgnoreValue()),
		"key is not provided":                    clientv3.OpPut("", "x"),
		"required revision is a future revision": clientv3.OpGet(e.key, clientv3.WithRev(1<<40)),
		"duplicate key given in txn request":     clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(e.key+"/before", "x")}, nil),
		"etcdserver: request is too large":       clientv3.OpPut(e.key, strings.Repeat("x", 1600<<10)),
	} {
		_, err := e.guard.Txn(with(t.Context(), 33, "a"), resource).Then(clientv3.OpPut(e.key+"/before", "x"), op).Commit()
		require.ErrorContains(t, err, "etcdguard: txn account/42: ", text)
		require.ErrorContains(t, err, text)
		require.Empty(t, outcomes(err), text)
		value, _ := e.get(e.key + "/before")
		require.Empty(t, value+e.mark(), "%s: nothing was applied", text)
	}
}
