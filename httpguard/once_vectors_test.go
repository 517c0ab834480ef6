package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
)

// onceVector is a request with a key, after an earlier one or while that is running.
type onceVector struct {
	Name     string
	First    *keyedRequest
	Running  bool
	Then     keyedRequest
	Status   int
	Type     string
	Replayed bool
	Runs     int64
}

type keyedRequest struct {
	Caller, Method, Host, Path, Type, Encoding, Body string
	Field                                            []string
}

func (r keyedRequest) order() order {
	o := order{caller: r.Caller, method: r.Method, host: r.Host, path: r.Path, kind: r.Type, body: r.Body, key: r.Field}
	if r.Encoding != "" {
		o.fields = http.Header{"Content-Encoding": {r.Encoding}}
	}
	return o
}

func TestOnceVectors(t *testing.T) {
	t.Parallel()
	all := readVectors(t).Once
	require.NotEmpty(t, all)
	named := map[string]bool{}
	for _, v := range all {
		require.False(t, named[v.Name], "two vectors: %s", v.Name)
		named[v.Name] = true
	}
	p := newPayments(t)
	for _, v := range all {
		require.NoError(t, v.check(p), v.Name)
		status, runs, typ, replayed := v, v, v, v
		status.Status++
		runs.Runs++
		typ.Type += "?"
		replayed.Replayed = !v.Replayed
		for _, mutant := range []onceVector{status, runs, typ, replayed} {
			require.Error(t, mutant.check(p), "nothing was compared: %s", v.Name)
		}
	}
}

// check sends the requests to a service without units.
func (v onceVector) check(p *payments) error {
	_, err := p.pool.Exec(p.t.Context(), "DELETE FROM "+pgx.Identifier{p.schema, "units"}.Sanitize())
	require.NoError(p.t, err)
	s := p.serve(routed, httpguard.Idempotency{Service: "payments", Caller: callerOf})
	p.made.Store(0)
	inside, resume := make(chan struct{}), make(chan struct{})
	p.during = nil
	if v.Running {
		p.during = firstTime(func(context.Context, pgx.Tx) error {
			close(inside)
			<-resume
			return nil
		})
	}
	var first <-chan reply
	if v.First != nil {
		first = s.placed(v.First.order())
		if v.Running {
			<-inside
		} else {
			requirePayment(p.t, 1, <-first)
		}
	}
	got := s.place(v.Then.order())
	close(resume)
	if v.Running {
		requirePayment(p.t, 1, <-first)
	}
	return errors.Join(v.answered(p.t, got), differ("runs", v.Runs, p.made.Load()))
}

func (v onceVector) answered(t *testing.T, got reply) error {
	if got.header.Get("Idempotency-Replayed") != map[bool]string{true: "true"}[v.Replayed] {
		return fmt.Errorf("replayed: %v", got.header)
	}
	if got.status == 201 {
		return errors.Join(differ("status", v.Status, got.status), differ("type", v.Type, ""))
	}
	return errors.Join(differ("status", v.Status, got.status), differ("type", v.Type, got.problem(t)["type"]),
		differ("Retry-After", got.status == 409, got.header.Get("Retry-After") != ""))
}
