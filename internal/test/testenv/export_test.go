package testenv

// ShownDSN is exported for tests that need no server.
var ShownDSN = shownDSN

// Pooled is exported for tests that need no server.
var Pooled = pooled
