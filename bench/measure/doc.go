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
// A [Trial] is for what shows only after a while: how locks pass from one to the
// next, say. Its blocks last for seconds, it may have more than two sides, and
// several ratios are read off the same blocks.
//
//	round     A B C D      the next one: D C B A
//
// # What it promises
//
// What happens to the machine in a round happens to all its sides. An operation
// that fails ends the measurement: no time of it is counted.
//
// # What it does not
//
// It tells no absolute times, which swing by more than a factor of two on one
// machine, and of a figure nothing of the slow few: that is what medians leave out.
// A figure whose baseline against itself (see [Figure.AA]) is far from 1 says nothing.
package measure
