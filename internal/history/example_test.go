package history_test

import (
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// A slept through the end of its lease, B took over, and A's write was accepted
// nevertheless.
func Example() {
	ms := time.Millisecond
	h := history.History{Ops: []history.Op{
		{Kind: history.Acquire, Writer: "A", Resource: "account/42", Outcome: history.Accepted, Began: 0, Ended: ms, Number: 33, Holder: "a", Until: 100 * ms},
		{Kind: history.Acquire, Writer: "B", Resource: "account/42", Outcome: history.Accepted, Began: 101 * ms, Ended: 102 * ms, Number: 34, Holder: "b", Until: 201 * ms},
		{Kind: history.Write, Writer: "B", Resource: "account/42", Outcome: history.Accepted, Began: 103 * ms, Ended: 105 * ms, Number: 34, Holder: "b"},
		{Kind: history.Write, Writer: "A", Resource: "account/42", Outcome: history.Accepted, Began: 150 * ms, Ended: 152 * ms, Number: 33, Holder: "a"},
	}}
	broken, err := history.Check(h)
	if err != nil {
		panic(err)
	}
	for _, verdict := range broken {
		fmt.Print(verdict)
	}
	// Output:
	// order: No write is accepted below one that was accepted before it began.
	// account/42: A write of #34 was accepted, and after that one of #33.
	// expected: A's write with #33 should have been refused: the mark was at least #34.
	//      from ms       to ms  who  what   token  outcome
	//        0.000       2.000  B    write  #34 b  accepted
	//       47.000      49.000  A    write  #33 a  accepted
}
