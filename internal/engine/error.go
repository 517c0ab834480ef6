package engine

import "errors"

// Page explains each refusal and what to do about it.
const Page = "https://github.com/fencepost/fencepost/blob/main/docs/engines.md"

// ErrUnfenced is guard.ErrUnfenced. It is declared here because packages that
// must not import guard return it too.
var ErrUnfenced = errors.New("guard: the database is not known to fence, nothing applied")

// Error is returned for an engine or mode that is not known to fence. It unwraps to
// [ErrUnfenced].
type Error struct {
	// Engine names the engine and its version, as in "Galera (MariaDB 10.11.19)".
	Engine string
	// Reason is why the engine does not fence, and what to set or do.
	Reason string
}

// Error returns the engine, the reason, and the address of [Page].
func (e *Error) Error() string {
	return ErrUnfenced.Error() + ": " + e.Engine + ": " + e.Reason + " (" + Page + ")"
}

// Unwrap returns [ErrUnfenced].
func (e *Error) Unwrap() error { return ErrUnfenced }
