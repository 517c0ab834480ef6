package timeline

import (
	_ "embed"
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escaped returns text escaped for HTML and XML.
func escaped(text string) string { return html.EscapeString(visible(text)) }

// visible replaces characters that HTML or XML must not contain, that are invisible, or
// that change the direction of the text.
func visible(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[0]), 16))
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case !unicode.IsPrint(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// brief returns text in at most n characters. It leaves out the middle, since names
// differ at both ends.
func brief(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	head := (n - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(n-1-head):])
}

// balanced is wrap with lines of about equal length.
func balanced(text string, size, width float64, n int) []string {
	lines := wrap(text, size, width, n)
	for narrower := width - 10; narrower > width/2; narrower -= 10 {
		again := wrap(text, size, narrower, n)
		if len(again) > len(lines) || again[len(again)-1] != lines[len(lines)-1] && len(lines) == n {
			break
		}
		lines = again
	}
	return lines
}

// wrap breaks text into at most n lines, none wider than width.
func wrap(text string, size, width float64, n int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if longer := strings.TrimSpace(line + " " + word); line == "" || wide(longer, size) <= width {
			line = longer
			continue
		}
		if len(lines) == n-1 {
			return append(lines, line+" …")
		}
		lines = append(lines, line)
		line = word
	}
	return append(lines, line)
}

// numbers shortens tokens' numbers: numbers of fifteen digits share the first ones and
// differ at their ends.
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

// short returns #41, or #…2715.
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

// widths are the widths of Helvetica as parts of its size, for characters that are not
// near the average.
var widths = map[float64]string{
	0.28: " .,:;!|'ijlIt/[]()f",
	0.36: "r-\"`",
	0.50: "ckszJxyv",
	0.67: "ABEKPSVXY&",
	0.74: "CDHNRUwGOQ",
	0.88: "mMW%@",
	1.00: "…→",
}

// spare is how much wider than Helvetica a system's font may be.
const spare = 1.16

var widthOf = func() map[rune]float64 {
	of := make(map[rune]float64)
	for width, runes := range widths {
		for _, r := range runes {
			of[r] = width
		}
	}
	return of
}()

// wide returns how many pixels text takes at most in a font of this size.
func wide(text string, size float64) float64 {
	sum := 0.0
	for _, r := range text {
		switch width, known := widthOf[r]; {
		case known:
			sum += width
		case r >= 0x1100:
			sum++
		default:
			sum += 0.56
		}
	}
	return sum * size * spare
}

// fit shortens text to a width.
func fit(text string, size, width float64) string {
	text = strings.TrimSpace(text)
	n := len([]rune(text))
	for n > 3 && wide(brief(text, n), size) > width {
		n--
	}
	return brief(text, n)
}

// canvas builds an SVG.
type canvas struct{ strings.Builder }

// px is a length, to a tenth of a pixel.
type px float64

func (x px) String() string {
	return strconv.FormatFloat(math.Round(float64(x)*10)/10, 'f', -1, 64)
}

// add writes markup. Arguments must be lengths, classes or escaped texts.
func (c *canvas) add(format string, args ...any) {
	for i, arg := range args {
		if x, ok := arg.(float64); ok {
			args[i] = px(x)
		}
	}
	fmt.Fprintf(c, format, args...)
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	c.add(`<path class="%s" d="M%v %vL%v %v"/>`, class, x1, y1, x2, y2)
}

func (c *canvas) rect(class string, x, y, w, h float64) {
	c.add(`<rect class="%s" x="%v" y="%v" width="%v" height="%v"/>`, class, x, y, w, h)
}

// text escapes text and writes it.
func (c *canvas) text(class string, x, y float64, text string) {
	c.add(`<text class="%s" x="%v" y="%v">%s</text>`, class, x, y, escaped(text))
}

// group draws with a hue. -1 is none.
func (c *canvas) group(hue int, draw func()) {
	if hue < 0 {
		draw()
		return
	}
	c.add(`<g class="h%d">`, hue)
	draw()
	c.add("</g>")
}

// hatch shades a span of a lane with a thick, dashed and slanted line.
func (c *canvas) hatch(x, y, w, h float64) {
	slant := h / 2 * math.Tan(math.Pi/6)
	w = max(w-2*slant, 0)
	c.add(`<path class="hatch" transform="translate(%v %v)skewX(-30)" stroke-width="%v" d="M0 0h%v"/>`, x+slant, y, h, w)
}

var (
	// figureCSS has the colours of a figure on a light background.
	//
	//go:embed figure.css
	figureCSS string
	// pageCSS styles the page around it, and has the colours for dark mode and print.
	//
	//go:embed page.css
	pageCSS string
)

// hues is how many colours writers have. Further writers reuse them: the lane's name
// identifies the writer. Red marks violations.
const hues = 6
