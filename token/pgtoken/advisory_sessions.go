package pgtoken

import (
	"errors"
	"sync"

	"github.com/fencepost/fencepost/token"
)

var errClosed = errors.New("Advisory is closed")

// sessions are those of an Advisory that have locks, by resource and holder.
type sessions struct {
	mu     sync.Mutex
	all    map[seat]*session
	closed bool
}

// seat is a token without its number.
type seat struct{ resource, holder string }

func seatOf(tok token.Token) seat { return seat{tok.Resource, tok.Holder} }

// open returns an error once they are closed.
func (s *sessions) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return nil
}

// get returns nil where there is none.
func (s *sessions) get(tok token.Token) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[seatOf(tok)]
}

func (s *sessions) put(one *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if s.all == nil {
		s.all = map[seat]*session{}
	}
	s.all[seatOf(one.tok)] = one
	return nil
}

// drop leaves alone a session that has taken the place of this one.
func (s *sessions) drop(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[seatOf(one.tok)] == one {
		delete(s.all, seatOf(one.tok))
	}
}

// close returns those there were, and takes no more.
func (s *sessions) close() map[seat]*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all, s.closed = nil, true
	return all
}
