package testenv

// Pooled lets the external tests reach what has no need of a server.
var Pooled = pooled
