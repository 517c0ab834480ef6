package measure

import "math"

// Quantile is the p-quantile of what is sorted already and not empty, by linear
// interpolation between the two nearest (Hyndman and Fan's type 7, which R and
// NumPy use).
func Quantile(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	below, share := math.Modf(at)
	i := int(below)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + share*(sorted[i+1]-sorted[i])
}
