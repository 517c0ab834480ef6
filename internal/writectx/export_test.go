package writectx

// CommitTimeout is the bound of ForCommit.
var CommitTimeout = &commitTimeout
