package picture

import "strings"

// widths are those of Helvetica in parts of its size, for the characters that
// are not near the average.
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

// wide is how many pixels text takes at most in a font of this size.
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
	for n := len([]rune(text)); n > 3 && wide(brief(text, n), size) > width; n-- {
		if wide(brief(text, n-1), size) <= width {
			return brief(text, n-1)
		}
	}
	return text
}
