// Package timeline draws a recorded history as a page for people: which writer held the
// lock, which was paused, what was requested of the resource and with which outcome, and
// the instant at which a rule was broken.
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
// In a narrow window the page shows the same events as a list. The page never scrolls
// sideways.
//
// A page is one file: no script, font, link or image from another place. The same [Page]
// gives the same bytes. Names and notes are escaped, so they are always shown as text. A
// page is smaller than 100 kB: if the history is long, it shows the part around the first
// violation, and states what it left out.
//
// # What it does not do
//
// It judges nothing. Time runs to the right and the order of all instants is exact, but
// distances are not to scale: close instants are drawn farther apart, and distant ones
// closer. A chart is about one resource.
package timeline
