package picture

// Short is how number is said beside another.
func Short(other, number int64) string { return newNumbers([]int64{other, number}).short(number) }

// Wide is what text takes.
func Wide(text string, size float64) float64 { return wide(text, size) }

// Largest is what a page may come to.
const Largest = largest
