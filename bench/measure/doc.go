// Package measure compares what two operations cost in one run: ours, and the
// baseline that a program without a fence would have.
//
// # How
//
//	round     P O O P      P: a block of the baseline, O: a block of ours
//	          O P P O      the next round begins with the other
//
// A block is sixteen operations of each worker, unless the figure says otherwise;
// the first of each side is not counted. What a block costs is the median of their
// times, or what the figure's own [Cost] reads off. A round's ratio is the sum of
// our blocks to the sum of the baseline's. The ratio of a [Row] is the median over
// its rounds, and beside it stand the quartiles.
//
// # What it promises
//
// What happens to the machine in a round happens to both sides. An operation
// that fails ends the figure: no time of it is counted.
//
// # What it does not
//
// It tells no absolute times, which swing by more than a factor of two on one
// machine, and nothing of the slow few: that is what medians leave out. A figure
// whose baseline against itself (see [Figure.AA]) is far from 1 says nothing.
package measure
