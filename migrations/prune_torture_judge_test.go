package migrations_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// judge finds answers that are wrong by themselves.
func (tt *torture) judge(id int, number int64, fixed bool, err error) {
	var refusal *pgconn.PgError
	errors.As(err, &refusal)
	switch {
	case err == nil:
		tt.count("admitted", 1)
	case errors.Is(err, errOnPurpose):
		tt.count("rolled back", 1)
	case code(err) == "ZF001":
		tt.judgeRefusal(id, number, refusal.Detail)
	case fixed && (code(err) == "40001" || code(err) == "ZF004"):
		tt.count(code(err), 1)
	default: // deadlocks and collisions are among these
		tt.violate("#%d of %s: %v", number, resource(id), err)
	}
}

// judgeRefusal holds a refusal against what was issued: the mark is a newer
// token of the resource, or the floor is above the token and was asked for.
func (tt *torture) judgeRefusal(id int, number int64, detail string) {
	text, holder, _ := strings.Cut(detail, " ")
	limit, kind := tt.newest[id].Load(), "refused by the mark"
	if holder == "" {
		limit, kind = tt.cutoff.Load(), "refused by the floor"
	}
	mark, err := strconv.ParseInt(text, 10, 64)
	if err != nil || mark <= number || mark > limit {
		tt.violate("spurious refusal of #%d of %s by %q, not above %d", number, resource(id), detail, limit)
	}
	tt.count(kind, 1)
}

// check reads the ledger. The n of an entry was drawn after its admission and
// before its commit, so that between two tokens n is the order of the commits,
// and by it the numbers of a resource never fall.
func (tt *torture) check() {
	tt.Helper()
	rows, err := tt.Query(tt.Context(), tt.sql(`SELECT format('stale write accepted on hot/%s: #%s after #%s', id, number, before)
		FROM (SELECT n, id, number, lag(number) OVER (PARTITION BY id ORDER BY n) AS before FROM fence.ledger) x
		WHERE number < before ORDER BY n LIMIT 10`))
	require.NoError(tt, err)
	stale, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(tt, err)
	tt.violations = append(tt.violations, stale...)
}

func (tt *torture) count(kind string, n int) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.counts[kind] += n
}

func (tt *torture) violate(format string, args ...any) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if len(tt.violations) < 10 {
		tt.violations = append(tt.violations, fmt.Sprintf(format, args...))
	}
}

func (tt *torture) clean() bool {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	return len(tt.violations) == 0
}
