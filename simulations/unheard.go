package simulations

import (
	"sync"

	"github.com/fencepost/fencepost/internal/failpoint"
)

// unheard records writes over traced connections while a stage is active, under contexts
// that belong to no writer. They are the subject's if the stage's writers use the same
// database: other tests of the process have their own.
type unheard struct {
	stop func()

	mu     sync.Mutex
	used   map[any]bool
	writes []failpoint.Unheard
}

func watchUnheard() *unheard {
	u := &unheard{used: map[any]bool{}}
	u.stop = failpoint.WatchUnheard(func(write failpoint.Unheard) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.writes = append(u.writes, write)
	})
	return u
}

// heard records that a writer uses the database.
func (u *unheard) heard(source any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used[source] = true
}

// count returns the number of the subject's writes that no listener received, and one of
// them.
func (u *unheard) count() (n int, sql string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, write := range u.writes {
		if u.used[write.Source] {
			n, sql = n+1, write.SQL
		}
	}
	return n, sql
}
