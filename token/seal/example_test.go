package seal_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// The issuer's side seals, the service verifies. Both have the keys from the
// same file, the one that seals first.
func ExampleRing() {
	keys, err := seal.ParseKeys(`
# made by: openssl rand -base64 32
2026-11 BeAb1gLNTYnR5PPwJDz2obGxMvDAGDAIVC1tOBuofeY=
2026-10 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	ring, err := seal.New(keys...)
	if err != nil {
		fmt.Println(err)
		return
	}
	tok := token.Token{Resource: "account/42", Number: 33, Holder: "c2f1"}
	sealed, err := ring.Seal(tok, time.Now().Add(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ring.Verify(sealed))

	sealed.Token.Number = token.MaxNumber
	err = ring.Verify(sealed)
	fmt.Println(errors.Is(err, token.ErrSeal), err)
	// Output:
	// <nil>
	// true seal: token account/42#999999999999999, key "2026-11": wrong
}
