package sqlguard

// CannotCommit is tested alone: an error in it has an effect only if a procedure commits.
var CannotCommit = cannotCommit

// RefuseTxControl is compared with the server's own parse of the same text.
var RefuseTxControl = refuseTxControl
