// Package registertest runs tokentest's suite over a store of package register, for the tests
// of drivers.
package registertest

import (
	"context"
	"hash/fnv"
	"iter"
	"testing"
	"time"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/tokentest"
)

// Issuer is what a driver's issuer implements.
type Issuer interface {
	token.Issuer
	token.QueueIssuer
	token.BatchRenewer
	token.Recoverer
	token.Inspector
}

// TestIssuer runs the whole suite over n processes that share the store. newIssuer returns
// the issuer of the i-th, from 0 on. forget deletes the record of a resource from the store,
// as its operator could.
func TestIssuer(t *testing.T, n int, newIssuer func(t *testing.T, i int) Issuer, forget func(ctx context.Context, resource string) error) {
	t.Helper()
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		p := &processes{forget: forget}
		for i := range n {
			p.all = append(p.all, newIssuer(t, i))
		}
		return p
	})
}

// processes are issuers that share a store. Each holder uses one of them.
type processes struct {
	all    []Issuer
	forget func(ctx context.Context, resource string) error
}

var _ interface {
	Issuer
	tokentest.Forgetter
} = (*processes)(nil)

func (p *processes) of(holder string) Issuer {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(holder))
	return p.all[sum.Sum32()%uint32(len(p.all))]
}

func (p *processes) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	return p.of(holder).Acquire(ctx, resource, holder, ttl)
}

func (p *processes) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	return p.of(holder).Wait(ctx, resource, holder, ttl)
}

func (p *processes) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	return p.of(tok.Holder).Renew(ctx, tok, ttl)
}

func (p *processes) Release(ctx context.Context, tok token.Token) error {
	return p.of(tok.Holder).Release(ctx, tok)
}

func (p *processes) RenewAll(ctx context.Context, batch []token.Renewal) {
	for n := range batch {
		p.of(batch[n].Token.Holder).RenewAll(ctx, batch[n:n+1])
	}
}

func (p *processes) Recover(ctx context.Context, resource string, number int64) error {
	return p.of(resource).Recover(ctx, resource, number)
}

func (p *processes) Inspect(ctx context.Context, resource string) (token.State, error) {
	return p.of(resource).Inspect(ctx, resource)
}

func (p *processes) Locks(ctx context.Context, prefix string) iter.Seq2[token.State, error] {
	return p.of(prefix).Locks(ctx, prefix)
}

func (p *processes) Forget(ctx context.Context, resource string) error {
	return p.forget(ctx, resource)
}
