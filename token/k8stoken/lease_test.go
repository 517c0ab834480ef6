package k8stoken_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/k8stoken"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, legal := range []string{"a", "7", "my-operator", "my-operator.example.com", "a--b", "a.b-c.d", strings.Repeat("x", token.MaxNameBytes)} {
		require.Equal(t, legal, k8stoken.Name(legal))
	}
	seen := map[string]string{}
	for key, want := range map[string]string{
		"account/42": `account-42\.fencepost-[0-9a-f]{24}`,
		"account-42": `account-42`,
		"Account-42": `account-42\.fencepost-[0-9a-f]{24}`,
		"a//b":       `a-b\.fencepost-[0-9a-f]{24}`,
		"-a-":        `a\.fencepost-[0-9a-f]{24}`,
		"a..b":       `a-b\.fencepost-[0-9a-f]{24}`,
		"a.-b":       `a-b\.fencepost-[0-9a-f]{24}`,
		"a\nb":       `a-b\.fencepost-[0-9a-f]{24}`,
		"a\n":        `a\.fencepost-[0-9a-f]{24}`,
		"日本":         `fencepost-[0-9a-f]{24}`,
		"..":         `fencepost-[0-9a-f]{24}`,
		// A name that looks like one that was made of another.
		k8stoken.Name("account/42"): `account-42-fencepost-[0-9a-f]{24}\.fencepost-[0-9a-f]{24}`,
		k8stoken.Name("日本"):         `fencepost-[0-9a-f]{24}\.fencepost-[0-9a-f]{24}`,
		// A letter whose lower case is legal.
		strings.Repeat("İ", token.MaxNameBytes/2): `i*\.fencepost-[0-9a-f]{24}`,
		strings.Repeat("X", token.MaxNameBytes):   `x*\.fencepost-[0-9a-f]{24}`,
	} {
		name := k8stoken.Name(key)
		require.Regexp(t, "^"+want+"$", name, "%q", key)
		require.LessOrEqual(t, len(name), 253, "%q", key)
		require.Empty(t, seen[name], "%q", key)
		seen[name] = key
	}
}

func encode(t *testing.T, r register.Record) (l struct {
	Metadata struct {
		Name, ResourceVersion string
		Annotations           map[string]string
	}
	Spec struct {
		HolderIdentity       string
		LeaseDurationSeconds int64
		RenewTime            time.Time
	}
}) {
	t.Helper()
	require.NoError(t, json.Unmarshal(k8stoken.Encode("account/42", "7", r), &l))
	return l
}

func TestALeaseIsARecordAndOneOfAnElector(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 20, 14, 5, 981_664_000, time.UTC)
	r := register.Record{
		Number: 42, Holder: "billing-1", TTL: 1500, Beat: at.UnixMicro(), At: at.UnixMilli(), Unconfirmed: "p",
		Queue: []register.Waiter{{Holder: "billing-2", Process: "q", Confirm: 1000}},
	}
	l := encode(t, r)
	require.Equal(t, "7", l.Metadata.ResourceVersion)
	require.Equal(t, "account/42", l.Metadata.Annotations["fencepost.dev/resource"])
	require.Equal(t, "42", l.Metadata.Annotations["fencepost.dev/number"])
	require.Equal(t, "billing-1", l.Spec.HolderIdentity)
	require.EqualValues(t, 2, l.Spec.LeaseDurationSeconds, "an elector must not take over earlier")
	require.Equal(t, at, l.Spec.RenewTime)

	e, err := k8stoken.EntryOf(k8stoken.Encode("account/42", "7", r))
	require.NoError(t, err)
	require.Equal(t, register.Entry{Record: r, Version: "7"}, e)

	r.Beat++
	require.NotEqual(t, l.Spec.RenewTime, encode(t, r).Spec.RenewTime, "each beat is a sign of life to an elector")
	r.Holder, r.TTL = "", 0
	require.EqualValues(t, 1, encode(t, r).Spec.LeaseDurationSeconds, "the server refuses zero")
	r.TTL = math.MaxInt64 / 1000
	require.EqualValues(t, math.MaxInt32, encode(t, r).Spec.LeaseDurationSeconds)
}

// The replies in this package's tests are those of kube-apiserver 1.36.2, without
// managedFields; the elector is client-go's 0.36.2.
const (
	ofElector = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"operator","namespace":"default","uid":"5affd8a4-3e62-419c-8ade-daa84a0a1b9a","resourceVersion":"198","creationTimestamp":"2026-11-29T20:14:05Z"%s},"spec":{"holderIdentity":"elector-1","leaseDurationSeconds":15,"acquireTime":"2026-11-29T20:14:05.981664Z","renewTime":"2026-11-29T20:14:05.981664Z","leaseTransitions":0}}`
	released  = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"operator","namespace":"default","uid":"5affd8a4-3e62-419c-8ade-daa84a0a1b9a","resourceVersion":"200","creationTimestamp":"2026-11-29T20:14:05Z"%s},"spec":{"holderIdentity":"","leaseDurationSeconds":1,"acquireTime":"2026-11-29T20:14:05.990327Z","renewTime":"2026-11-29T20:14:05.990327Z","leaseTransitions":0}}`
)

func annotated(text string, r register.Record) string {
	record, _ := json.Marshal(r)
	quoted, _ := json.Marshal(string(record))
	return strings.Replace(text, "%s", `,"annotations":{"fencepost.dev/record":`+string(quoted)+`}`, 1)
}

func TestALeaseThatAnElectorHasWritten(t *testing.T) {
	t.Parallel()
	renewed := time.Date(2026, 11, 29, 20, 14, 5, 981_664_000, time.UTC).UnixMicro()
	before := register.Record{
		Number: 42, Holder: "billing-1", TTL: 1500, Beat: renewed - 1, At: renewed / 1000, Unconfirmed: "p",
		Queue: []register.Waiter{{Holder: "billing-2", Process: "q", Confirm: 1000}},
	}
	theirs := register.Record{Number: 42, Holder: "elector-1", TTL: 15_000, Beat: renewed, Queue: before.Queue}
	for what, c := range map[string]struct {
		lease string
		want  register.Record
	}{
		"a new one":                  {strings.Replace(ofElector, "%s", "", 1), register.Record{Holder: "elector-1", TTL: 15_000, Beat: renewed}},
		"after a record":             {annotated(ofElector, before), theirs},
		"with a waiter":              {annotated(ofElector, theirs), theirs},
		"released":                   {annotated(released, theirs), register.Record{Number: 42, TTL: 1000, Beat: renewed + 8663, Queue: before.Queue}},
		"without a spec":             {`{"metadata":{"name":"a"},"spec":{}}`, register.Record{}},
		"in the same microsecond":    {annotated(ofElector, register.Record{Holder: "h", Beat: renewed}), register.Record{Holder: "elector-1", TTL: 15_000, Beat: renewed}},
		"our holder's, by its clock": {annotated(ofElector, register.Record{Holder: "elector-1", TTL: 1, Beat: renewed - 1, At: 1}), register.Record{Holder: "elector-1", TTL: 15_000, Beat: renewed}},
	} {
		e, err := k8stoken.EntryOf([]byte(c.lease))
		require.NoError(t, err, what)
		require.Equal(t, c.want, e.Record, what)
	}
}
