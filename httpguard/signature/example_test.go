package signature_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

// The issuer signs, and the service verifies. Both read the keys from the same file,
// whose first key signs.
func ExampleKeyring() {
	keys, err := signature.ParseKeys(`
# made by: openssl rand -base64 32
2026-11 BeAb1gLNTYnR5PPwJDz2obGxMvDAGDAIVC1tOBuofeY=
2026-10 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	keyring, err := signature.New(keys...)
	if err != nil {
		fmt.Println(err)
		return
	}
	tok := token.Token{Resource: "account/42", Number: 33, Holder: "c2f1"}
	signed, err := keyring.Sign(tok, time.Now().Add(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(keyring.Verify(signed))

	signed.Token.Number = token.MaxNumber
	err = keyring.Verify(signed)
	fmt.Println(errors.Is(err, token.ErrBadSignature), err)
	// Output:
	// <nil>
	// true signature: token account/42#999999999999999, key "2026-11": wrong
}
