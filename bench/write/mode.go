package write

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/sqlguard"
)

// many is how many goroutines write at once, where they are several.
const many = 16

// mode is how writes are committed, and by how many.
type mode struct {
	pool         *pgxpool.Pool
	workers      int
	asynchronous bool
}

func (m mode) guard() *sqlguard.Guard { return &sqlguard.Guard{DB: m.pool} }

func (m mode) suffix() string {
	switch {
	case m.asynchronous:
		return ", asynchronous commit"
	case m.workers > 1:
		return fmt.Sprintf(", %d goroutines", m.workers)
	}
	return ""
}

// target is the one of the mode, of which asynchronous commits have none.
func (m mode) target(one, together float64) float64 {
	switch {
	case m.asynchronous:
		return 0
	case m.workers > 1:
		return together
	}
	return one
}

// timed begins with the noise of the mode. What commits nothing, or waits for the
// disk whatever the session says, is not measured again with asynchronous commits.
func (g *Group) timed(m mode) []measure.Figure {
	figures := []measure.Figure{
		g.tableUpdate(m).AA("a/a"), g.tableUpdate(m), g.onExec(m), g.update(m), g.protected(m),
	}
	if !m.asynchronous {
		figures = append(figures, g.tableRefused(m), g.onRefused(m), g.admit(m), g.mint(m))
	}
	for i := range figures {
		figures[i].Name += m.suffix()
		figures[i].Workers = m.workers
	}
	return figures
}

// spread is enough operations in a block for what happens once in a hundred, as
// the clearing of a page's dead rows does.
const spread = 400

// counted is what the server writes, in bytes of its log and in index entries.
func (g *Group) counted(m mode) []measure.Figure {
	bytes := g.tableUpdate(m)
	bytes.Name, bytes.Cost, bytes.Size = "Table.Update WAL bytes", wal(m.pool), spread
	bytes.Target, bytes.Extra = 0, 6
	share := g.tableUpdate(m)
	share.Name, share.Cost, share.Size = "Table.Update updates per HOT update", hot(m.pool), spread
	share.Target = 1.01
	on := g.onExec(m)
	on.Name, on.Cost, on.Size = "On(…).Exec WAL bytes", wal(m.pool), spread
	on.Target = 0
	return []measure.Figure{bytes, share, on}
}
