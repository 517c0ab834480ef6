package pgxpoint

import (
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/internal/sqltext"
)

// packet is what was sent at once: a statement, or a batch.
type packet struct {
	empty   bool       // nothing but comments
	step    point.Step // what it is inside a transaction; empty for its end, and for savepoints
	commits bool       // it has a COMMIT, or there is no transaction
	writes  bool       // as far as its words tell
	dead    bool       // the connection had been closed before
}

func pack(conn *pgx.Conn, texts []string) packet {
	p := packet{
		empty: true, commits: conn.PgConn().TxStatus() == idle, dead: conn.IsClosed(),
	}
	for _, text := range texts {
		switch sqltext.Verb(text) {
		case "":
			continue
		case "COMMIT":
			p.commits, p.step = true, point.Commit
		case "ROLLBACK", "SAVEPOINT", "RELEASE":
		default:
			if p.step == "" {
				p.step = point.Statement
			}
		}
		p.empty = false
		p.writes = p.writes || !sqltext.Reads(text)
	}
	return p
}
