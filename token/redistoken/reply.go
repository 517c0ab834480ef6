package redistoken

import (
	"fmt"
	"math"
	"time"

	"github.com/fencepost/fencepost/token"
)

// refusal is what wait.lua and acquire.lua answer where somebody else has the
// lock: who, and for how long. The rest is wait.lua's alone.
type refusal struct {
	token.HeldError
	clock  int64  // the server's, in microseconds
	ticket string // of who asked, in the line
}

// granted reads what acquire.lua and wait.lua answer.
func granted(reply any, resource string) (number int64, refused *refusal, err error) {
	switch reply := reply.(type) {
	case int64:
		if reply > 0 {
			return reply, nil, nil
		}
		return 0, nil, token.ErrExhausted
	case []any:
		r := &refusal{HeldError: token.HeldError{Resource: resource}}
		if len(reply) != 2 && len(reply) != 4 {
			break
		}
		holder, isText := reply[0].(string)
		ms, isInt := reply[1].(int64)
		r.Holder, r.Remaining = holder, remaining(ms)
		if len(reply) == 4 && isText && isInt {
			r.clock, isInt = reply[2].(int64)
			r.ticket, isText = reply[3].(string)
		}
		if isText && isInt {
			return 0, r, nil
		}
	}
	return 0, nil, unexpected(reply)
}

// remaining translates PTTL, which is negative for a key without expiry.
func remaining(ms int64) time.Duration {
	if ms < 0 {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// passed reads what release.lua answers: whether the lock was the asker's, and
// what the next waiter of this process got.
func passed(reply any) (owned bool, next *handover, err error) {
	switch reply := reply.(type) {
	case int64:
		return reply == 1, nil, nil
	case []any:
		if len(reply) != 3 {
			break
		}
		number, isNumber := reply[0].(int64)
		clock, isClock := reply[1].(int64)
		ticket, isTicket := reply[2].(string)
		if isNumber && isClock && isTicket {
			return true, &handover{number: number, clock: clock, ticket: ticket}, nil
		}
	}
	return false, nil, unexpected(reply)
}

// lost is the error for a token whose holder does not have the lock.
func lost(tok token.Token) error {
	return fmt.Errorf("redistoken: %s: %w", tok, token.ErrLost)
}

func unexpected(reply any) error { return fmt.Errorf("server answered %v", reply) }
