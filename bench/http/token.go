package http

import (
	"fmt"
	"time"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// many is how many workers there are, where they are several. Each has an account
// of its own.
const many = 16

func account(worker int) string { return fmt.Sprint(42 + worker) }

// current is as long as the tokens of a lock in Redis are.
func current(worker int) token.Token {
	return token.Token{Resource: "account/" + account(worker), Number: 179516977481431, Holder: "billing:4711:1:c2f1a9035be17d64"}
}

// overtaken is a token that was the newest before.
func overtaken(worker int) token.Token {
	tok := current(worker)
	tok.Number--
	return tok
}

// fields are the workers' Fencing-Token fields.
type fields [many]string

func unsealed(of func(worker int) token.Token) (all fields, err error) {
	for worker := range all {
		if all[worker], err = httpguard.Format(of(worker)); err != nil {
			return all, err
		}
	}
	return all, nil
}

func sealed(ring *seal.Ring) (all fields, err error) {
	for worker := range all {
		tok, err := ring.Seal(current(worker), time.Time{})
		if err != nil {
			return all, err
		}
		if all[worker], err = httpguard.FormatSealed(tok); err != nil {
			return all, err
		}
	}
	return all, nil
}
