package picture

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// numbers says tokens' numbers shortly: fifteen digits share the first ones,
// and where two numbers differ is at their ends.
type numbers struct{ shared string }

// leastDigits are always shown.
const leastDigits = 4

func newNumbers(all []int64) numbers {
	var texts []string
	for _, n := range all {
		if n > 0 {
			texts = append(texts, strconv.FormatInt(n, 10))
		}
	}
	if len(texts) == 0 {
		return numbers{}
	}
	low, high := slices.Min(texts), slices.Max(texts) // of equal length, or nothing is shared
	for _, text := range texts {
		if len(text) != len(low) {
			return numbers{}
		}
	}
	shared := 0
	for shared < len(low)-leastDigits && low[shared] == high[shared] {
		shared++
	}
	if shared < leastDigits {
		return numbers{}
	}
	return numbers{low[:shared]}
}

// short is #41, or #…2715.
func (n numbers) short(number int64) string {
	if number == 0 {
		return "no number"
	}
	text := strconv.FormatInt(number, 10)
	if cut, ok := strings.CutPrefix(text, n.shared); ok && n.shared != "" {
		return "#…" + cut
	}
	return "#" + text
}

var numbered = regexp.MustCompile(`#[1-9][0-9]{0,17}`)

// in shortens the numbers of a sentence.
func (n numbers) in(sentence string) string {
	return numbered.ReplaceAllStringFunc(sentence, func(found string) string {
		number, err := strconv.ParseInt(found[1:], 10, 64)
		if err != nil {
			return found
		}
		return n.short(number)
	})
}
