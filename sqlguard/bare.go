package sqlguard

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A packet without BEGIN and COMMIT is a transaction too: the server commits it
// at the Sync behind it, and rolls it back where anything in it has failed
// (manual, "Pipelining"). That spares it two statements, and a refusal the
// packet with the ROLLBACK. What it costs is that nothing says "COMMIT": that
// the server is ready again is the proof, and a session that was ended before it
// said so leaves the outcome open.

// isBare reports whether the packet of one statement may go without. A CALL or DO
// must not: in such a transaction it may commit, and would go on behind its own
// COMMIT without the admission.
func isBare(begin pgx.TxOptions, sql string, args []any) bool {
	for _, arg := range args {
		switch arg.(type) {
		case pgx.NamedArgs, pgx.StrictNamedArgs: // these leave the verb as it is
			continue
		case pgx.QueryRewriter:
			return false
		}
		break
	}
	return begin == (pgx.TxOptions{}) && staysInside(sql)
}

// borrow takes the connection for a bare packet, and returns what the packet is
// sent over. Of a DB of another kind, and in the simple protocol, where one string
// can be several statements, nobody knows what it would do without the BEGIN.
func (f *flight) borrow(ctx context.Context, db DB) (DB, error) {
	switch own := db.(type) {
	case *pgxpool.Pool:
		conn, err := own.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		f.borrowed, f.conn = conn, conn.Conn()
	case *pgxpool.Conn:
		f.conn = own.Conn()
	case *pgx.Conn:
		f.conn = own
	default:
		return db, nil
	}
	f.bare = f.conn.PgConn().TxStatus() == 'I' && !isSimple(f.conn)
	return f.conn, nil
}

// modeKey is where a connection's mode is kept in its CustomData: Config, which
// tells it, copies all there is.
const modeKey = "fencepost.sqlguard.simple"

func isSimple(conn *pgx.Conn) bool {
	kept := conn.PgConn().CustomData()
	simple, known := kept[modeKey].(bool)
	if !known {
		simple = conn.Config().DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
		kept[modeKey] = simple
	}
	return simple
}
