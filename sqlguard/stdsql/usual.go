package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/fencepost/fencepost/token"
)

// usual is the part of a dialect that has nothing of its own to say.
type usual struct{}

func (usual) options(given *sql.TxOptions) *sql.TxOptions                    { return given }
func (usual) enter(context.Context, *sql.Conn, way, []token.Token) error     { return nil }
func (usual) leave(*sql.Conn) error                                          { return nil }
func (usual) hold(context.Context, *transaction) error                       { return nil }
func (usual) check(context.Context, *transaction) error                      { return nil }
func (usual) over(error) bool                                                { return false }
func (usual) cut(error) bool                                                 { return false }
func (usual) patience() time.Duration                                        { return 0 }
func (usual) evict(_ context.Context, _ *sql.DB, _ token.Token) (none error) { return none }

// clear: a server ends the transactions of the connections that it loses.
func (usual) clear(t *transaction, err error) bool {
	if !errors.Is(err, sql.ErrTxDone) {
		t.discard()
	}
	return false
}

// says goes by the texts of errors, where they have nothing else.
func says(texts ...string) func(err error) bool {
	return func(err error) bool {
		for _, text := range texts {
			if err != nil && strings.Contains(err.Error(), text) {
				return true
			}
		}
		return false
	}
}

// statement returns an SQL file without its header, which is for readers of the
// file.
func statement(file string) string {
	for strings.HasPrefix(file, "--") {
		_, file, _ = strings.Cut(file, "\n")
	}
	return strings.TrimSpace(file)
}
