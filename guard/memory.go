package guard

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

const shards = 64

var seed = maphash.MakeSeed()

// Memory keeps marks in memory, for tests and for resources that themselves
// live in this process's memory. It forgets everything when the process ends,
// and grows with the number of resources: it is no guard for anything that
// outlives the process. The zero value is ready; it must not be copied.
type Memory struct {
	shards [shards]shard
}

// shard points to its marks, since a map has up to twice the slots that it
// uses: with a pointer in each, a resource costs a fifth less.
type shard struct {
	mu    sync.Mutex
	marks map[string]*Mark
}

var _ Store = (*Memory)(nil)

// Admit implements [Store]. It never waits and looks at ctx only to refuse a
// caller that has already given up.
func (m *Memory) Admit(ctx context.Context, tok token.Token) error {
	if err := context.Cause(ctx); err != nil && !point.Observing(ctx) { // a write in memory asks no context
		return vouched(ctx, err)
	}
	s := &m.shards[maphash.String(seed, tok.Resource)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	mark, known := s.marks[tok.Resource]
	if !known {
		mark = new(Mark)
	}
	raised, err := mark.Raised(tok)
	if err != nil {
		return Observer{}.Judge(ctx, err, false)
	}
	if raised == *mark {
		return nil
	}
	// Cloned: a token that came in a header is a part of a whole line, which
	// would stay for as long as the mark.
	raised.Holder = strings.Clone(raised.Holder)
	*mark = raised
	if !known {
		s.put(strings.Clone(tok.Resource), mark)
	}
	return nil
}

// Mark returns the mark of a resource: the zero Mark if it has none.
func (m *Memory) Mark(resource string) Mark {
	s := &m.shards[maphash.String(seed, resource)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if mark, known := s.marks[resource]; known {
		return *mark
	}
	return Mark{}
}

func (s *shard) put(resource string, mark *Mark) {
	if s.marks == nil {
		s.marks = make(map[string]*Mark)
	}
	s.marks[resource] = mark
}
