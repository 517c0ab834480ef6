package guard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// A holder writes, is paused, and is overtaken.
func Example() {
	ctx := context.Background()
	paused := token.Token{Resource: "account/42", Number: 33, Holder: "a"}
	successor := token.Token{Resource: "account/42", Number: 34, Holder: "b"}

	var marks guard.Memory
	fmt.Println(marks.Admit(ctx, paused))
	fmt.Println(marks.Admit(ctx, successor))
	fmt.Println(marks.Admit(ctx, paused))
	// Output:
	// <nil>
	// <nil>
	// guard: stale token account/42#33: overtaken by #34 of b
}

func ExampleMark_Admits() {
	mark := guard.Mark{Number: 33, Holder: "a"}
	for _, tok := range []token.Token{
		{Resource: "account/42", Number: 34, Holder: "b"},
		{Resource: "account/42", Number: 33, Holder: "a"},
		{Resource: "account/42", Number: 33, Holder: "b"},
		{Resource: "account/42", Number: 32, Holder: "a"},
	} {
		err := mark.Admits(tok)
		fmt.Println(tok, tok.Holder, errors.Is(err, guard.ErrStale), errors.Is(err, guard.ErrCollision))
	}
	// Output:
	// account/42#34 b false false
	// account/42#33 a false false
	// account/42#33 b true true
	// account/42#32 a true false
}

// Report-only mode comes before enforcing: the claim reports, and refuses nothing. Claim is a
// field of lock.Locker.
func ExampleHooks_Outcome() {
	marks := new(guard.Memory)
	hooks := guard.Hooks{Reported: func(_ context.Context, err error) {
		fmt.Println("would have refused:", err)
	}}
	claim := func(ctx context.Context, tok token.Token) error {
		return hooks.Outcome(ctx, marks.Admit(ctx, tok), true)
	}
	for _, number := range []int64{34, 33} {
		tok := token.Token{Resource: "account/42", Number: number, Holder: "a"}
		fmt.Println(claim(context.Background(), tok))
	}
	// Output:
	// <nil>
	// would have refused: guard: stale token account/42#33: overtaken by #34 of a
	// <nil>
}
