package picture

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// nameLength is how many characters a table and a sentence give to a name.
const nameLength = 48

// table lists what is drawn with all that is known of it.
func (f *figure) table() string {
	if len(f.shown) == 0 {
		return ""
	}
	c := &canvas{}
	c.add("<details><summary>%s, with all that was recorded</summary><div class=\"scroll\" tabindex=\"0\"><table><thead><tr>", ops(len(f.shown)))
	for _, head := range []string{"from ms", "to ms", "who", "what", "outcome", "number", "holder", "more"} {
		c.add("<th>%s</th>", head)
	}
	c.add("</tr></thead><tbody>\n")
	for _, op := range f.shown {
		c.add("<tr%s>", map[bool]string{true: ` class="bad"`}[f.isBad(op)])
		for _, cell := range f.row(op) {
			c.add("<td>%s</td>", escaped(cell))
		}
		c.add("</tr>\n")
	}
	c.add("</tbody></table></div></details>\n")
	return c.String()
}

func (f *figure) row(op *history.Op) []string {
	number := ""
	if op.Number > 0 {
		number = strconv.FormatInt(op.Number, 10)
	}
	what := string(op.Kind)
	if op.Note != "" {
		what += ": " + op.Note
	}
	return []string{
		f.exact(op.Began), f.exact(op.Ended), brief(op.Writer, nameLength), brief(what, 2*nameLength),
		string(op.Outcome), number, brief(op.Holder, nameLength), f.more(op),
	}
}

// exact is in milliseconds, to the microsecond.
func (f *figure) exact(at time.Duration) string {
	return strconv.FormatFloat(float64(at-f.from)/float64(time.Millisecond), 'f', 3, 64)
}

// more is what only some kinds have.
func (f *figure) more(op *history.Op) string {
	text := ""
	if op.Until > 0 {
		text += ", until " + f.exact(op.Until)
	}
	if op.Kind == history.Read || op.Traced {
		text += fmt.Sprintf(", counted %d", op.Counted)
	}
	if op.Seen > 0 {
		text += fmt.Sprintf(", read version %d", op.Seen)
	}
	if op.Made > 0 {
		text += fmt.Sprintf(", made version %d", op.Made)
	}
	return cmp.Or(text, ", ")[2:]
}

func ops(n int) string {
	if n == 1 {
		return "1 op"
	}
	return strconv.Itoa(n) + " ops"
}
