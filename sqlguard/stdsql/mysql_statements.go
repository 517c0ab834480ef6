package stdsql

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	_ "embed"

	"github.com/fencepost/fencepost/token"
)

var (
	//go:embed mysql_look.sql
	mysqlLook string
	//go:embed mysql_share.sql
	mysqlShare string
	//go:embed mysql_floor.sql
	mysqlFloor string
	//go:embed mysql_raise.sql
	mysqlRaise string
	//go:embed mysql_raise_below.sql
	mysqlRaiseBelow string
	//go:embed mysql_enter.sql
	mysqlEnter string
	//go:embed mysql_leave.sql
	mysqlLeave string
)

// of writes a token into a statement, in literals. A statement with parameters
// is prepared first, at the price of a second trip, unless the DSN says
// otherwise; and then the connection's character set may change their bytes.
// A hexadecimal literal is a binary string, and there is nothing in it to quote.
func of(file string, tok token.Token) string {
	return strings.NewReplacer(
		"{resource}", hex.EncodeToString([]byte(tok.Resource)),
		"{number}", strconv.FormatInt(tok.Number, 10),
		"{holder}", hex.EncodeToString([]byte(tok.Holder)),
	).Replace(statement(file))
}

// within writes a bound into mysql_enter.sql, in whole seconds and not shorter
// than it is.
func within(bound time.Duration) string {
	seconds := int64((bound + time.Second - 1) / time.Second)
	return strings.Replace(statement(mysqlEnter), "{seconds}", strconv.FormatInt(seconds, 10), 1)
}
