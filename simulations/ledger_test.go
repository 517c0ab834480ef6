package simulations_test

import (
	"context"
	"sync"
	"testing"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

const resource = "account/42"

// ledger counts in memory. Each unit reads, computes, and writes what it has
// computed, as code with a database does.
type ledger struct {
	mu    sync.Mutex
	units int
	marks guard.Store
}

func (l *ledger) read() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.units
}

func (l *ledger) Do(ctx context.Context) error {
	seen := l.read()
	simulations.Point(ctx, "computed")
	return l.write(ctx, seen+1)
}

// write compares and writes in one step, as a transaction does.
func (l *ledger) write(ctx context.Context, units int) error {
	tok, err := token.FromContext(ctx, resource)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.marks.Admit(ctx, tok); err != nil {
		return err
	}
	l.units = units
	return nil
}

func (l *ledger) Count(context.Context) (int, error) { return l.read(), nil }

func (l *ledger) subject() simulations.Subject {
	return simulations.Subject{
		Issuer: new(memtoken.Issuer), Resource: resource,
		Do: l.Do, Count: l.Count, Claim: l.marks.Admit,
	}
}

func TestRunInMemory(t *testing.T) {
	t.Parallel()
	simulations.Run(t, (&ledger{marks: new(guard.Memory)}).subject())
}
