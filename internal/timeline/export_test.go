package timeline

// Short returns the short text of number beside another.
func Short(other, number int64) string { return newNumbers([]int64{other, number}).short(number) }

// Wide returns the width of text.
func Wide(text string, size float64) float64 { return wide(text, size) }

// Largest is the maximal size of a page.
const Largest = largest
