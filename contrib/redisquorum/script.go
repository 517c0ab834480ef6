package redisquorum

import (
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed member.lua
	memberSource string
	//go:embed acquire.lua
	acquireSource string
	//go:embed write.lua
	writeSource string
	//go:embed withdraw.lua
	withdrawSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string
	//go:embed counters.lua
	countersSource string
	//go:embed recover.lua
	recoverSource string
	//go:embed inspect.lua
	inspectSource string
	//go:embed rejoin.lua
	rejoinSource string
	//go:embed bootstrap.lua
	bootstrapSource string
	//go:embed retract.lua
	retractSource string

	acquireScript   = redis.NewScript(memberSource + acquireSource)
	writeScript     = redis.NewScript(memberSource + writeSource)
	renewScript     = redis.NewScript(memberSource + renewSource)
	releaseScript   = redis.NewScript(memberSource + releaseSource)
	countersScript  = redis.NewScript(memberSource + countersSource)
	recoverScript   = redis.NewScript(memberSource + recoverSource)
	inspectScript   = redis.NewScript(memberSource + inspectSource)
	rejoinScript    = redis.NewScript(memberSource + rejoinSource)
	bootstrapScript = redis.NewScript(memberSource + bootstrapSource)
	withdrawScript  = redis.NewScript(withdrawSource)
	retractScript   = redis.NewScript(retractSource)
)

// reply is a node's reply to a script: a word and its arguments.
type reply struct {
	word  string
	parts []any
	err   error
}

// parseReply parses the reply of a script, a list that begins with a word.
func parseReply(value any, err error) reply {
	list, _ := value.([]any)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("unexpected reply %v", value)
	}
	if err != nil {
		return reply{err: err}
	}
	word, _ := list[0].(string)
	return reply{word: word, parts: list[1:]}
}

// expect returns an error if the reply has another word, or another number of arguments.
func (r reply) expect(parts int, words ...string) reply {
	for _, word := range words {
		if r.err != nil || r.word == word && len(r.parts) == parts {
			return r
		}
	}
	return reply{err: fmt.Errorf("unexpected reply %s %v", r.word, r.parts)}
}

func (r reply) text(n int) string {
	text, _ := r.parts[n].(string)
	return text
}

func (r reply) integer(n int) int64 {
	integer, _ := r.parts[n].(int64)
	return integer
}

// numbers parses the arguments from the nth on as decimal numbers. keys are the keys of
// the counters among them, with "" for other numbers.
func (r reply) numbers(n int, keys ...string) ([]int64, error) {
	numbers := make([]int64, len(r.parts)-n)
	for i := range numbers {
		number, err := strconv.ParseInt(r.text(n+i), 10, 64)
		switch {
		case err == nil:
		case i < len(keys) && keys[i] != "":
			return nil, fmt.Errorf("its counter %q is not a number: its value is %q", keys[i], r.text(n+i))
		default:
			return nil, fmt.Errorf("unexpected reply %s %v", r.word, r.parts)
		}
		numbers[i] = number
	}
	return numbers, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
