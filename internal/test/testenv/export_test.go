package testenv

// LockFile is exported for tests that need no server.
var LockFile = lockFile

// ShownDSN is exported for tests that need no server.
var ShownDSN = shownDSN

// Pooled is exported for tests that need no server.
var Pooled = pooled
