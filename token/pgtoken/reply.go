package pgtoken

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

// reply is what the server says to a question: one line of text, which package
// migrations describes where it makes the function ask.
type reply struct {
	number  int64 // 0 where refused
	claimed bool
	clock   microseconds // the server's, when it decided
	waited  microseconds

	holder    string // who has it, where refused
	remaining microseconds
	ticket    int64 // of who stands in line
}

func parseReply(text string) (reply, error) {
	words := strings.SplitN(text, " ", 5)
	var numbers [4]int64
	for i := range min(len(words), len(numbers)) {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			return reply{}, fmt.Errorf("the server's answer is %q: %w", text, err)
		}
		numbers[i] = n
	}
	a := reply{number: numbers[0], clock: microseconds(numbers[2])}
	switch {
	case a.number > 0 && len(words) <= 4:
		a.claimed, a.waited = numbers[1] > 0, microseconds(numbers[3])
	case a.number == 0 && len(words) == 5:
		a.remaining, a.ticket, a.holder = microseconds(numbers[1]), numbers[3], words[4]
	default:
		return reply{}, fmt.Errorf("the server's answer is %q", text)
	}
	return a, nil
}

func (a reply) granted() bool { return a.number > 0 }

// grant is what was asked for at sent.
func (a reply) grant(resource, holder string, sent time.Time, ttl time.Duration) token.Grant {
	tok := token.Token{Resource: resource, Number: a.number, Holder: holder}
	return token.Grant{Token: tok, Until: until(sent, a.waited, ttl), Claimed: a.claimed}
}

func (a reply) held(resource string) *token.HeldError {
	return &token.HeldError{Resource: resource, Holder: a.holder, Remaining: a.remaining.duration()}
}
