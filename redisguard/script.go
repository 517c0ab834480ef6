package redisguard

import (
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var (
	//go:embed mark.lua
	markSource string
	//go:embed admit.lua
	admitSource string
	//go:embed admitted.lua
	admittedSource string
	//go:embed mint.lua
	mintSource string
	//go:embed write.lua
	writeSource string
	//go:embed command.lua
	commandSource string
	//go:embed pipeline.lua
	pipelineSource string
	//go:embed unit.lua
	unitSource string
	//go:embed record.lua
	recordSource string

	admitScript    = redis.NewScript(markSource + admitSource + admittedSource)
	mintScript     = redis.NewScript(markSource + mintSource)
	commandScript  = guarded(commandSource)
	pipelineScript = guarded(pipelineSource)
)

// script is sent by its hash, or by its text if the server does not have it cached.
type script struct{ text, hash string }

// guarded returns a script that runs source if the token is admitted.
func guarded(source string) script {
	return assemble(source, markSource, admitSource, writeSource, "return perform()")
}

// once returns a script that runs source if its unit was not recorded before and the
// token is admitted, and records the unit before it and after it.
func once(source string) script {
	return assemble(source, markSource, unitSource, admitSource, writeSource, recordSource)
}

// assemble returns the script of source and the parts that call it.
//
// source becomes the body of a function, so that it may return from anywhere. The
// function comes first, so that our local variables are not visible to it. It begins on
// line 1, so that line numbers in errors are its own. A source that is not a whole script
// (an extra `end`, an unterminated string or comment) makes the script fail to compile,
// and nothing runs.
func assemble(source string, parts ...string) script {
	text := "local write = function(...) " + source + "\nend\n" + strings.Join(parts, "\n")
	return script{text: text, hash: redis.NewScript(text).Hash()}
}

// reply is a script's result: a word, and up to two values.
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

// unexpected returns the error for a result that is neither an outcome nor a refusal.
func unexpected(key string, value any) error {
	switch parse(value).word {
	case "corrupt":
		return fmt.Errorf("key %q holds no mark", key)
	case "corrupt unit":
		return fmt.Errorf("key %q holds no unit", key)
	}
	return fmt.Errorf("server answered %v", value)
}

// scriptError is the error of an Eval's own script. It is a [redis.Error].
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError implements [redis.Error].
func (e scriptError) RedisError() {}

var _ redis.Error = scriptError("")

// failed returns the error of a call that applied nothing.
func failed(verb, name string, err error) error {
	switch code(err) {
	case "BUSY", "TRYAGAIN": // another client's script is running; the slot is moving to another node
		return fmt.Errorf("redisguard: %s %s: %w: %w", verb, name, guard.ErrRetryable, err)
	}
	return fmt.Errorf("redisguard: %s %s: %w", verb, name, err)
}

func unknown(verb, name string, err error) error {
	return fmt.Errorf("redisguard: %s %s: %w: %w", verb, name, guard.ErrUnknown, err)
}

// code returns the first word of an error reply, or "" for another error.
func code(err error) string {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	return word
}
