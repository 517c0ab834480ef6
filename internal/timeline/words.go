package timeline

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/internal/history"
)

// word is a part of a sentence: a token's number, or text.
type word struct {
	Text   string
	Number bool
	Owner  int // the lane of the number's owner
}

// nameLength is how many characters of a name are shown.
const nameLength = 24

var verbs = map[history.Kind]string{
	history.Acquire: "asks for the lock", history.Renew: "renews the lease", history.Release: "gives the lock back",
	history.Claim: "claims", history.Write: "writes", history.Unit: "does a unit of work",
	history.Read: "reads", history.Mark: "reads the mark", history.Fault: "paused",
}

// describe sets the sentence, the sign and the tone of a row.
func (p *picture) describe(i int) {
	r := &p.Rows[i]
	if v := r.broken; v != nil {
		r.Who, r.Tone = "Broken: "+v.Rule.ID+".", Broken
		r.Words = p.words(" " + clean(v.Why, 500) + " Expected: " + clean(cmp.Or(v.Expected, v.Rule.Words), 500))
		return
	}
	op := r.op
	if op == nil {
		r.Tone, r.Words = Dim, []word{{Text: p.millis(p.Rows[i+1].at-r.at) + " ms pass"}}
		return
	}
	r.Who, r.Sign = clean(op.Writer, nameLength), "•"
	text := " " + cmp.Or(clean(op.Note, 60), verbs[op.Kind])
	if r.Lane == 0 || op.Kind == history.Fault {
		text = ":" + text
	}
	switch {
	case r.phase == leaseEnds:
		r.Sign, text = "", "'s lease is over"
	case op.Kind == history.Fault && r.phase == opBegins:
		r.Sign, r.Tone = "", Paused
	case op.Kind == history.Fault:
		r.Tone = Paused
		if op.Began < op.Ended {
			text = " resumes"
		}
	case r.phase == opEnds:
		text = p.ending(r, text, p.Rows[max(i-1, 0)].mark)
	case op.Kind != history.Acquire:
		text += numberOf(op) + ": sent"
	case p.holder(op) != "":
		text = " " + verbs[op.Kind] + ", which " + clean(p.holder(op), nameLength) + " has"
	}
	r.Words = p.words(text)
}

var signs = map[history.Outcome]string{history.Accepted: "✓", history.Refused: "✗", history.Unknown: "?", history.Failed: "!"}

// ending returns the sentence about the end of an op, at which the mark was as before.
func (p *picture) ending(r *row, text string, before int64) string {
	op := r.op
	change := op.Kind == history.Claim || op.Kind == history.Write || op.Kind == history.Unit
	if op.Kind == history.Acquire && op.Outcome == history.Accepted && op.Note == "" {
		text = " gets the lock"
	}
	text += numberOf(op)
	if op.Kind != history.Read && op.Kind != history.Mark {
		r.Sign = signs[op.Outcome]
	}
	// For a release without an answer the sign is enough.
	if change || op.Outcome != history.Accepted && (op.Kind != history.Release || op.Outcome != history.Unknown) {
		text += ": " + string(op.Outcome)
	}
	switch stale := change && op.Number > 0 && op.Number < max(before, r.mark); {
	case stale && (op.Outcome == history.Refused || r.Fell):
		text += ", below the mark"
	case stale && op.Outcome == history.Accepted:
		text += ", sent before the mark rose"
	}
	switch {
	case p.bad[*op]:
		r.Tone = Bad
	case change && op.Outcome == history.Refused:
		r.Tone = Refused
	}
	if op.Seen > 0 {
		text += fmt.Sprintf(", read version %d", op.Seen)
	}
	if op.Made > 0 {
		text += fmt.Sprintf(", made version %d", op.Made)
	}
	once := op.Counted == map[history.Outcome]int{history.Accepted: 1}[op.Outcome]
	if op.Traced && !once || op.Kind == history.Read && op.Note == "" {
		text += fmt.Sprintf(", counted %d", op.Counted)
	}
	return text
}

// numberOf returns the number of op's token, or the mark that it read.
func numberOf(op *history.Op) string {
	if op.Number == 0 || op.Kind == history.Read || op.Kind == history.Renew || op.Kind == history.Release {
		return ""
	}
	return map[bool]string{false: " with", true: ":"}[op.Kind == history.Mark] + fmt.Sprintf(" #%d", op.Number)
}

var numbered = regexp.MustCompile(`#[1-9][0-9]{0,17}\b`)

// words shortens the numbers of a sentence.
func (p *picture) words(text string) (words []word) {
	for {
		at := numbered.FindStringIndex(text)
		if at == nil {
			return append(words, word{Text: text})
		}
		number, _ := strconv.ParseInt(text[at[0]+1:at[1]], 10, 64) // eighteen digits fit
		words = append(words, word{Text: text[:at[0]]}, word{p.short(number), true, p.owners[number]})
		text = text[at[1]:]
	}
}

// sharedDigits returns the digits with which all numbers begin, as numbers of fifteen digits
// do, or "" if they are fewer than four. It does not count the last four of a number.
func sharedDigits(ops []*history.Op) (shared string) {
	for _, op := range ops {
		text := strconv.FormatInt(op.Number, 10)
		text = text[:max(len(text)-4, 0)]
		if op.Number == 0 {
			continue
		}
		for shared = cmp.Or(shared, text); !strings.HasPrefix(text, shared); {
			shared = shared[:len(shared)-1]
		}
		if len(shared) < 4 {
			return ""
		}
	}
	return shared
}

// short returns #41, or #…2715.
func (p *picture) short(number int64) string {
	text := strconv.FormatInt(number, 10)
	if cut, ok := strings.CutPrefix(text, p.shared); ok && p.shared != "" {
		return "#…" + cut
	}
	return "#" + text
}

// unquoted undoes what [strconv.Quote] does to printable text, and puts it on one line.
var unquoted = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, " ", `\t`, " ")

// clean returns text in at most n characters, with escapes for characters that are invisible or
// change its direction. It leaves out the middle, since names differ at both ends.
func clean(text string, n int) string {
	quoted := strconv.Quote(text)
	runes := []rune(unquoted.Replace(quoted[1 : len(quoted)-1]))
	if len(runes) > n {
		head, tail := (n-1)/2, n/2
		runes = slices.Concat(runes[:head], []rune("…"), runes[len(runes)-tail:])
	}
	return string(runes)
}
