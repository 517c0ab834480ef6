package picture

import (
	"fmt"

	"github.com/fencepost/fencepost/simulations/history"
)

// labelOp says over the lane what its writer asked for, or was told.
func (f *figure) labelOp(lane *lane, op *history.Op) {
	if op.Kind == history.Unit && !f.bare[op] {
		return // its writes say it
	}
	l := label{at: f.scale.index(op.Began), rank: ranks[op.Kind], class: "word", text: verb(op)}
	if asked := op.Kind == history.Renew || op.Kind == history.Acquire; asked && op.Outcome != history.Accepted {
		l.at = f.scale.index(op.Ended)
	}
	if f.isBad(op) {
		l.rank = 0
	}
	f.words(lane, l)
}

var ranks = map[history.Kind]int{history.Acquire: 3, history.Write: 2, history.Claim: 2, history.Unit: 3, history.Read: 3, history.Mark: 2, history.Renew: 2, history.Release: 3}

// verb is what op is called; nothing where its drawing says it.
func verb(op *history.Op) string {
	if op.Note != "" {
		return brief(op.Note, 40)
	}
	outcome := map[history.Outcome]string{history.Refused: " refused", history.Unknown: " unanswered", history.Failed: " failed"}[op.Outcome]
	switch op.Kind {
	case history.Acquire:
		if outcome == "" {
			return "asks"
		}
		return "lock" + outcome
	case history.Renew:
		if outcome != "" {
			return "renewal" + outcome
		}
		return ""
	case history.Release:
		return "releases" + map[bool]string{true: ":" + outcome}[outcome != ""]
	case history.Claim:
		return "claims"
	case history.Write:
		return "writes"
	case history.Unit:
		return "works"
	case history.Read:
		return fmt.Sprintf("counts %d", op.Counted)
	}
	return ""
}
