// Package picture draws a recorded history as a page for people: who held the
// lock, who stood still, what was asked of the resource and what became of it,
// and the instant at which it went wrong.
//
//	A      ▐▬▬ #41 ▬▬▌////// stopped //////       •
//	B                  ▐▬▬▬ #42 ▬▬▬▬▌•              \
//	                                  \              \
//	mark                         ┌─────●  #42         \
//	       ──────────────────────┘                     ⊗  #41, refused
//	ms     0          12              103             104
//
// # What it promises
//
// A page is one file: no script, no font, no link and no image from elsewhere.
// The same [Page] gives the same bytes. Names and notes are text, whatever is
// in them. A page stays below 100 kB: of a long history it shows what is around
// the first violation, and says what it left out.
//
// # What it does not
//
// It judges nothing. Time runs to the right and the order of all instants is
// exact, but distances are not to scale: what is close together is drawn apart,
// and what is far apart close. A scene is about one resource.
package picture
