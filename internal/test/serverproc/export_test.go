package serverproc

// NewFolder is exported for tests that need no server.
var NewFolder = newFolderIn
