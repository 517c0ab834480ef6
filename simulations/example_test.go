package simulations_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// wallet is a balance in memory, with the mark beside it.
type wallet struct {
	mu      sync.Mutex
	balance int
	marks   guard.Memory
}

func (a *wallet) withdrawn(context.Context) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return 100 - a.balance, nil
}

// withdraw reads, computes, and writes the result: a holder that is paused in between
// must not write.
func (a *wallet) withdraw(ctx context.Context) error {
	taken, err := a.withdrawn(ctx)
	if err != nil {
		return err
	}
	simulations.Failpoint(ctx, "computed") // a writer can be stopped here
	tok, err := token.FromContext(ctx, "account/42")
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.marks.Admit(ctx, tok); err != nil {
		return err
	}
	a.balance = 100 - (taken + 1)
	return nil
}

// In a test file the function is TestWithdrawalsSurviveThePause.
func ExampleRun() {
	testWithdrawalsSurviveThePause := func(t *testing.T) {
		a := &wallet{balance: 100}
		simulations.Run(t, simulations.Subject{
			Issuer:   new(memtoken.Issuer),
			Resource: "account/42",
			Do:       a.withdraw,
			Count:    a.withdrawn,
			Claim:    a.marks.Admit,
			Unseen:   "the account is in memory", // a database has a tracer: see package pgxpoint
		})
	}
	_ = testWithdrawalsSurviveThePause
}

// A Verdict names the broken rules and, if the kit recognizes it, the likely mistake.
func ExampleVerdict() {
	var err error = &simulations.Verdict{Interleaving: "plan"}
	if v, ok := err.(*simulations.Verdict); ok && v.Vacuous() {
		fmt.Println("the test could not have failed")
	}
	// Output: the test could not have failed
}
