package redisguard

import (
	"encoding"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

var (
	errLeft  = errors.New("redisguard: the caller has left")
	errAgain = errors.New("redisguard: not sent again")
)

// gate is the last argument of a guarded write: the token, which go-redis asks
// for each time that it writes the command to a connection. Without its last
// argument a command is no command: go-redis closes the connection, and a server
// that has received the beginning throws it away. So the gate decides whether
// the write is sent:
//
//   - Not after its caller has left. go-redis would wait for a connection, or
//     for its next try, and send it then.
//   - Not again where the last try was not answered. That one may have been
//     applied: then this would apply it twice, or be refused because of a newer
//     token that came in between, as if nothing had been applied.
//   - Again where it was answered by an error: then no script had run. That is a
//     redirect of a Cluster, a replica that was the master, a server that loads.
type gate struct {
	token string
	state atomic.Int32
	// cmd is the command. A pipeline sets the error of its commands after every
	// try, and the gate takes it off before the next: what is there then is the
	// answer to the last try, and nil if nobody said.
	cmd *redis.Cmd
	// doubt is why the last try was not answered. It is set when another one is
	// held back.
	doubt error
}

const (
	unsent int32 = iota
	sent
	shut
)

var _ encoding.BinaryMarshaler = (*gate)(nil)

// MarshalBinary returns the token, if the command may be sent.
func (g *gate) MarshalBinary() ([]byte, error) {
	switch {
	case g.state.CompareAndSwap(unsent, sent):
	case g.state.Load() == shut:
		return nil, errLeft
	case !answered(g.cmd.Err()):
		g.doubt = errAgain
		if err := g.cmd.Err(); err != nil {
			g.doubt = fmt.Errorf("%w: %w", errAgain, err)
		}
		return nil, errAgain
	}
	g.cmd.SetErr(nil)
	return []byte(g.token), nil
}

// String is for hooks that log commands.
func (g *gate) String() string { return g.token }

// shut lets nothing through any more, and reports whether something has been.
func (g *gate) shut() (wasSent bool) { return g.state.Swap(shut) == sent }

// reopen is for a command that was answered and is to be followed by another. It
// reports false where the caller has left.
func (g *gate) reopen() bool { return g.state.CompareAndSwap(sent, unsent) }

// isOpen reports whether the outcome of what was sent is open. It is asked when
// go-redis has given up.
func (g *gate) isOpen() bool { return g.state.Load() != unsent && !answered(g.cmd.Err()) }

// answered reports whether err is an answer of the server. Of our scripts it is
// one only where they have not run, or not to the point where they write: what
// happens from there on they put into words.
func answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !errors.Is(err, redis.Nil)
}
