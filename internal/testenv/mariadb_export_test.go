package testenv

// ShownDSN lets the external tests reach what has no need of a server.
var ShownDSN = shownDSN
