package redistoken

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/fencepost/fencepost/token"
)

// number reads acquire.lua's answer: the number, or why there is none.
func number(reply any, resource string) (int64, error) {
	parts, _ := reply.([]any)
	switch {
	case len(parts) == 2 && parts[0] == "granted":
		text, _ := parts[1].(string)
		if number, err := strconv.ParseInt(text, 10, 64); err == nil {
			return number, nil
		}
	case len(parts) == 3 && parts[0] == "held":
		holder, _ := parts[1].(string)
		ms, _ := parts[2].(int64)
		return 0, &token.HeldError{Resource: resource, Holder: holder, Remaining: remaining(ms)}
	case len(parts) == 1 && parts[0] == "exhausted":
		return 0, fmt.Errorf("redistoken: acquire %s: %w", resource, token.ErrExhausted)
	}
	return 0, fmt.Errorf("redistoken: acquire %s: server answered %v", resource, reply)
}

// remaining translates PTTL, which is negative for a key without expiry.
func remaining(ms int64) time.Duration {
	if ms < 0 {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// owned reads the answer of renew.lua and release.lua.
func owned(reply any, tok token.Token) error {
	switch reply {
	case int64(1):
		return nil
	case int64(0):
		return fmt.Errorf("redistoken: %s: %w", tok, token.ErrLost)
	}
	return fmt.Errorf("redistoken: %s: server answered %v", tok, reply)
}
