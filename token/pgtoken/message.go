package pgtoken

import (
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

// message tells a waiter that it was handed the resource. It may have been
// under way for long.
type message struct {
	place
	reply    reply
	accept   microseconds // how long the lease is
	received time.Time
}

// place is one waiter's in the lines.
type place struct{ resource, holder string }

func parseMessage(payload string, received time.Time) (message, error) {
	lines := strings.Split(payload, "\n")
	if len(lines) != 4 {
		return message{}, fmt.Errorf("pgtoken: the notification is %q", payload)
	}
	a, err := parseReply(lines[0])
	if err != nil {
		return message{}, err
	}
	m := message{place: place{lines[2], lines[3]}, reply: a, received: received}
	if _, err := fmt.Sscan(lines[1], &m.accept); err != nil {
		return message{}, fmt.Errorf("pgtoken: the notification is %q: %w", payload, err)
	}
	return m, nil
}

// grant counts from the waiter's last answered question: the resource was
// handed over so much later as the server's clock says, on which both happened.
// Counted from its receipt, a message that was long under way would make a
// lease that is over look alive. It was not sent before it arrived, whatever that
// clock did.
func (m message) grant(asked time.Time, clock microseconds) token.Grant {
	since := asked.Add((m.reply.clock - clock).duration())
	if m.received.Before(since) {
		since = m.received
	}
	tok := token.Token{Resource: m.resource, Number: m.reply.number, Holder: m.holder}
	return token.Grant{Token: tok, Until: since.Add(m.accept.duration()), Claimed: m.reply.claimed}
}
