package guard

import (
	"context"
	"strings"
	"sync"

	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/token"
)

// Memory keeps marks in memory, for tests and for resources in this process's memory. Its
// marks are lost when the process ends, so it cannot guard a resource that outlives the
// process. Its size grows with the number of resources. The zero Memory is ready for use.
// A Memory must not be copied.
type Memory struct {
	mu sync.Mutex // shards are no faster: see BenchmarkMemoryAdmitInParallel
	// The map holds pointers, since a map has up to twice the slots that it uses: with a
	// pointer in each slot, a resource takes a fifth less memory.
	marks map[string]*Mark
}

var _ Identified = (*Memory)(nil)

// Admit implements [Store]. It does not block. If ctx has already ended, it returns the
// cause of ctx. If only the lease is lost, the mark decides, as in the other guards.
func (m *Memory) Admit(ctx context.Context, tok token.Token) error {
	err := writectx.CheckSend(ctx)
	if err == nil {
		err = Hooks{}.Outcome(ctx, m.raise(tok), false)
	}
	return WithCause(ctx, err)
}

func (m *Memory) raise(tok token.Token) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	mark, known := m.marks[tok.Resource]
	if !known {
		mark = new(Mark)
	}
	raised, err := mark.Raised(tok)
	if err != nil {
		return err
	}
	if raised == *mark {
		return nil
	}
	// Clone: the strings of a token from a header refer to the whole header line, which
	// would stay in memory with the mark.
	raised.Holder = strings.Clone(raised.Holder)
	*mark = raised
	if !known {
		if m.marks == nil {
			m.marks = make(map[string]*Mark)
		}
		m.marks[strings.Clone(tok.Resource)] = mark
	}
	return nil
}

// Identity implements [Identified]. It returns m.
func (m *Memory) Identity() any { return m }

// Mark returns the mark of a resource, or the zero Mark if it has none.
func (m *Memory) Mark(resource string) Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mark, known := m.marks[resource]; known {
		return *mark
	}
	return Mark{}
}
