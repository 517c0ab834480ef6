package sqlguard

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/internal/point"
)

// end reads the answer to the COMMIT, after the body's have been read, and
// gives the connection back. Only the answer to the COMMIT proves a write: a
// deferred constraint, say, fails there. err is the body's, nil for none.
func (f *flight) end(err error) error {
	if err != nil {
		return f.fail(err)
	}
	proof := f.committed
	if f.bare {
		proof = f.ready
	}
	if err := proof(); err != nil {
		return f.fail(err)
	}
	f.release()
	if f.wrote {
		f.call.at(f.caller, point.Applied)
	} else {
		f.call.at(f.caller, point.Undone)
	}
	return nil
}

func (f *flight) committed() error {
	var tag pgconn.CommandTag
	if f.commits {
		var err error
		if tag, err = f.results.Exec(); err != nil {
			return err
		}
	}
	if tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	// What happens to the connection behind a COMMIT changes nothing any more.
	if err := f.results.Close(); err != nil && tag.String() != "COMMIT" {
		return err
	}
	return nil
}

// ready waits for the server to be ready again, outside of any transaction: the
// bare packet is committed then.
func (f *flight) ready() error {
	f.ending = true
	f.batch.QueuedQueries = nil // what fails at a commit says nothing against the prepared statements
	if err := f.results.Close(); err != nil {
		return err
	}
	if f.conn.PgConn().TxStatus() != 'I' {
		return pgx.ErrTxCommitRollback
	}
	return nil
}
