// Package registertest tests the drivers of package register, on their servers.
package registertest

import (
	"context"
	"hash/fnv"
	"testing"
	"time"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/tokentest"
)

// TestIssuer runs tokentest's whole suite over n processes that share the store. newIssuer
// returns the issuer of the i-th, from 0 on. forget deletes the record of a resource from the
// store, as its operator could.
func TestIssuer(t *testing.T, n int, newIssuer func(t *testing.T, i int) register.Interface, forget func(ctx context.Context, resource string) error) {
	t.Helper()
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		p := &processes{forget: forget}
		for i := range n {
			p.all = append(p.all, newIssuer(t, i))
		}
		p.Interface = p.all[n-1]
		return p
	})
}

// processes are issuers that share a store. Each holder uses one of them, and who looks or
// recovers the last.
type processes struct {
	register.Interface
	all    []register.Interface
	forget func(ctx context.Context, resource string) error
}

var _ tokentest.Forgetter = (*processes)(nil)

func (p *processes) of(holder string) register.Interface {
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

func (p *processes) Forget(ctx context.Context, resource string) error {
	return p.forget(ctx, resource)
}
