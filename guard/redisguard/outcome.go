package redisguard

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
)

// scriptError is what an Eval's own script was stopped by. It is a [redis.Error].
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError marks it as one for go-redis.
func (e scriptError) RedisError() {}

var _ redis.Error = scriptError("")

// failed is the error of a call by which nothing was applied.
func failed(verb, name string, err error) error {
	switch code(err) {
	case "BUSY", "TRYAGAIN": // somebody else's script runs; the slot is on its way to another node
		return fmt.Errorf("redisguard: %s %s: %w: %w", verb, name, guard.ErrRetryable, err)
	}
	return fmt.Errorf("redisguard: %s %s: %w", verb, name, err)
}

func unknown(verb, name string, err error) error {
	return fmt.Errorf("redisguard: %s %s: %w: %w", verb, name, guard.ErrUnknown, err)
}

// code is the first word of an answer that is an error, or empty.
func code(err error) string {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	return word
}

// last is the last step of a write of which the caller is told err.
func last(err error) point.Step {
	switch {
	case err == nil:
		return point.Applied
	case errors.Is(err, guard.ErrUnknown):
		return point.Unknown
	}
	return point.Undone
}
