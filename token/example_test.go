package token_test

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/token"
)

// Code that writes gets its token from its context, and an error if there is none.
func ExampleFromContext() {
	ctx := token.NewContext(context.Background(), token.Token{Resource: "account/42", Number: 33, Holder: "billing:7:1:c2f1"})
	tok, err := token.FromContext(ctx, "account/42")
	fmt.Println(tok, err)
	_, err = token.FromContext(ctx, "acount/42")
	fmt.Println(err)
	// Output:
	// account/42#33 <nil>
	// token: no token for acount/42 in context (it carries: account/42)
}

func ExampleToken_MarshalText() {
	tok, err := token.New("konto/größe", 33, "billing:7:1:c2f1")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := tok.MarshalText()
	fmt.Println(string(text), err)
	// Output: 33;r=%"konto/gr%c3%b6%c3%9fe";h="billing:7:1:c2f1" <nil>
}
