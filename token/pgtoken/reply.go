package pgtoken

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/marks"
	"github.com/fencepost/fencepost/token"
)

// reply is the server's reply to an Acquire or a poll: one line of text. Its format is
// documented in package migrations, where the function is created.
type reply struct {
	number  int64 // 0 if refused
	claimed bool
	clock   microseconds // the server's time of the decision
	waited  microseconds

	holder    string // the holder of the lease, if refused
	remaining microseconds
	ticket    int64 // the waiter's place in the queue
}

func parseReply(text string) (reply, error) {
	words := strings.SplitN(text, " ", 5)
	var numbers [4]int64
	for i := range min(len(words), len(numbers)) {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			return reply{}, fmt.Errorf("unexpected reply %q: %w", text, err)
		}
		numbers[i] = n
	}
	r := reply{number: numbers[0], clock: microseconds(numbers[2])}
	switch {
	case r.number > 0 && len(words) <= 4:
		r.claimed, r.waited = numbers[1] > 0, microseconds(numbers[3])
	case r.number == 0 && len(words) == 5:
		r.remaining, r.ticket, r.holder = microseconds(numbers[1]), numbers[3], words[4]
	default:
		return reply{}, fmt.Errorf("unexpected reply %q", text)
	}
	return r, nil
}

func (r reply) granted() bool { return r.number > 0 }

// grant returns the grant of a lease that was requested at sent.
func (r reply) grant(i *Issuer, resource, holder string, sent time.Time, ttl time.Duration) token.Grant {
	tok := token.Token{Resource: resource, Number: r.number, Holder: holder}
	return token.Grant{Token: tok, Until: until(sent, r.waited, ttl), Claimed: i.raised(r)}
}

// raised identifies the marks that the grant raised. It returns the zero ID if there are
// none, or if DB is not a pool: a guard compares only pools.
func (i *Issuer) raised(r reply) marks.ID {
	pool, _ := i.DB.(*pgxpool.Pool)
	if !r.claimed || pool == nil {
		return marks.ID{}
	}
	return marks.ID{DB: pool, Schema: i.schemaName()}
}

func (r reply) held(resource string) *token.HeldError {
	return &token.HeldError{Resource: resource, Holder: r.holder, Remaining: r.remaining.duration()}
}

// notification is the message to a waiter that the resource was handed to it. It may have
// been delayed.
type notification struct {
	waiterKey
	reply    reply
	ttl      microseconds // of the lease that was handed over
	received time.Time
}

// waiterKey identifies a waiter.
type waiterKey struct{ resource, holder string }

func parseNotification(payload string, received time.Time) (notification, error) {
	lines := strings.Split(payload, "\n")
	if len(lines) != 4 {
		return notification{}, fmt.Errorf("pgtoken: unexpected notification %q", payload)
	}
	r, err := parseReply(lines[0])
	if err != nil {
		return notification{}, err
	}
	n := notification{waiterKey: waiterKey{lines[2], lines[3]}, reply: r, received: received}
	if _, err := fmt.Sscan(lines[1], &n.ttl); err != nil {
		return notification{}, fmt.Errorf("pgtoken: unexpected notification %q: %w", payload, err)
	}
	return n, nil
}

// grant returns the grant that n announces. The lease counts from the waiter's last
// answered poll, which was sent at asked and answered at clock on the server's clock: n's
// own server time shows how much later the resource was handed over. If the lease counted
// from the receipt, a delayed notification would make an expired lease look alive. The
// time of receipt is an upper bound, in case the server's clock was set.
func (n notification) grant(i *Issuer, asked time.Time, clock microseconds) token.Grant {
	since := asked.Add((n.reply.clock - clock).duration())
	if n.received.Before(since) {
		since = n.received
	}
	tok := token.Token{Resource: n.resource, Number: n.reply.number, Holder: n.holder}
	return token.Grant{Token: tok, Until: since.Add(n.ttl.duration()), Claimed: i.raised(n.reply)}
}
