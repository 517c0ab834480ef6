package doctor

import (
	"context"
	"database/sql"
	"time"
)

// ExamineMySQL is [MySQL.Examine] of a server that is replayed.
func ExamineMySQL(ctx context.Context, db *sql.DB) (*Report, error) {
	report := &Report{Server: "replayed"}
	return report, report.examineMySQL(ctx, db)
}

// The tests of locks and snapshots run over connections with a known result.
var (
	LocksExclude = locksExclude
	SeesCommits  = seesCommits
)

// Judge returns the verdict for a range of differences, because a test cannot set clocks.
func Judge(least, most time.Duration) Verdict {
	a, _ := offset{least, most}.judge()
	return a.verdict
}

// Narrow returns the range that is left after several measurements.
func Narrow(looks ...[2]time.Duration) (least, most time.Duration) {
	var o offset
	for i, l := range looks {
		o = o.narrowed(offset{l[0], l[1]}, i == 0)
	}
	return o.least, o.most
}
