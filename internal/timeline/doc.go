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
//
// # The files, in reading order
//
//	timeline.go  what a caller passes; the parts of a page from the top down; its greatest size;
//	             the text of violations; the notes under a picture
//	story.go     which resource and which ops are shown, and which are cut out of a long
//	             history; when the mark rises and falls; when a lease begins and ends
//	figure.go    the layout: lanes and their order, heights and widths, the rows of the mark;
//	             the instant at which an op arrives at the resource
//	scale.go     positions of instants: their distances are not to scale; breaks; the axis and
//	             its times
//	label.go     the words at leases, pauses, ops and outcomes; which of them are left out if
//	             there is no room; the text of the violation, and its line
//	draw.go      the shapes: leases, pauses, requests, the staircase of the mark; filled,
//	             crossed or empty, by outcome; the names at the left
//	legend.go    the entries of the legend, and which of them a page shows
//	list.go      the list of events for a narrow window; the table of all that was recorded;
//	             tooltips, and the text for readers who cannot see the picture
//	text.go      escaping; names and numbers are shortened, as in #…2715; the width of a text;
//	             elements of SVG; the style sheets and the number of colours
package timeline
