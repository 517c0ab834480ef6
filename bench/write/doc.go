// Package write has the figures of guarded writes to PostgreSQL: what each way of
// package sqlguard costs beside the same write unguarded, over one pool.
//
//	accounts     what a program without a fence has
//	fenced       the same rows, with their own marks, for sqlguard.Table
//	protected    the same rows, which a trigger guards
//
// Each figure is measured three times: with commits that wait for the disk, with
// commits that do not (synchronous_commit=off), and by sixteen goroutines at once,
// each of which has a row of its own. Tokens are claimed, as they are after the
// first write of a lease.
package write
