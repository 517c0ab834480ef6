package redisquorum

import (
	"fmt"
	"strconv"
	"time"
)

// reply is what a node answered to a script: a word, and what belongs to it.
type reply struct {
	word  string
	parts []any
	err   error
}

// read takes value apart. A script answers a list that begins with a word.
func read(value any, err error) reply {
	list, _ := value.([]any)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("it answered %v", value)
	}
	if err != nil {
		return reply{err: err}
	}
	word, _ := list[0].(string)
	return reply{word: word, parts: list[1:]}
}

// expect makes an error of every other word, and of a list of another length.
func (r reply) expect(parts int, words ...string) reply {
	for _, word := range words {
		if r.err != nil || r.word == word && len(r.parts) == parts {
			return r
		}
	}
	return reply{err: fmt.Errorf("it answered %s %v", r.word, r.parts)}
}

func (r reply) text(n int) string {
	text, _ := r.parts[n].(string)
	return text
}

func (r reply) integer(n int) int64 {
	integer, _ := r.parts[n].(int64)
	return integer
}

// numbers reads the parts from the nth on, which are counters in decimal.
func (r reply) numbers(n int) ([]int64, error) {
	numbers := make([]int64, len(r.parts)-n)
	for i := range numbers {
		number, err := strconv.ParseInt(r.text(n+i), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("it has a counter that is no number: %w", err)
		}
		numbers[i] = number
	}
	return numbers, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
