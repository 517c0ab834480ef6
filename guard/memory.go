package guard

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/token"
)

const shards = 64

var seed = maphash.MakeSeed()

// Memory keeps marks in memory, for tests and for resources in this process's memory. Its
// marks are lost when the process ends, so it cannot guard a resource that outlives the
// process. Its size grows with the number of resources. The zero Memory is ready for use.
// A Memory must not be copied.
type Memory struct {
	shards [shards]shard
}

// shard is a part of Memory with its own mutex. Its map holds pointers, since a map has
// up to twice the slots that it uses: with a pointer in each slot, a resource takes a
// fifth less memory.
type shard struct {
	mu    sync.Mutex
	marks map[string]*Mark
}

var _ Identified = (*Memory)(nil)

// Admit implements [Store]. It does not block. If ctx has already ended, it returns the
// cause of ctx.
func (m *Memory) Admit(ctx context.Context, tok token.Token) error {
	if err := context.Cause(ctx); err != nil && !failpoint.IsUnguarded(ctx) { // an unguarded write in memory ignores its context
		return withStale(ctx, err)
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
		return Hooks{}.Outcome(ctx, err, false)
	}
	if raised == *mark {
		return nil
	}
	// Clone: the strings of a token from a header refer to the whole header line, which
	// would stay in memory with the mark.
	raised.Holder = strings.Clone(raised.Holder)
	*mark = raised
	if !known {
		s.put(strings.Clone(tok.Resource), mark)
	}
	return nil
}

// Identity implements [Identified]. It returns m.
func (m *Memory) Identity() any { return m }

// Mark returns the mark of a resource, or the zero Mark if it has none.
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
