package redisguard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// reply is what a script answers: a word, and up to two values.
type reply struct {
	word   string
	values [2]any
}

func parse(value any) reply {
	var r reply
	if parts, _ := value.([]any); len(parts) > 0 {
		r.word, _ = parts[0].(string)
		copy(r.values[:], parts[1:])
	}
	return r
}

// stale returns the refusal of tok by the mark in value.
func stale(tok token.Token, value any) error {
	text, _ := value.(string)
	number, holder, _ := strings.Cut(text, " ")
	mark := guard.Mark{Holder: holder}
	mark.Number, _ = strconv.ParseInt(number, 10, 64)
	return &guard.StaleError{Token: tok, Mark: mark}
}

// unexpected says what else a script has answered.
func unexpected(key string, value any) error {
	if parse(value).word == "corrupt" {
		return fmt.Errorf("key %q holds no mark", key)
	}
	return fmt.Errorf("server answered %v", value)
}
