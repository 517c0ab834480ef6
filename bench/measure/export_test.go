package measure

// Quantile is tested on its own: no sum of rounds shows its edges.
var Quantile = quantile
