// Package crowd has many want the same lock all the time, and reads off how it
// passes from one to the next.
//
//	wait      from asking to being granted; one that the end of the block cuts
//	          off counts with what it had lasted by then
//	hand-over from the moment a holder begins to give back, to the moment a
//	          waiter who had asked before has it
//	fairness  Jain's index of how often each had it: 1 where all had it as
//	          often, 1/n where one of n had it alone (R. Jain, D. Chiu, W. Hawe:
//	          A Quantitative Measure of Fairness and Discrimination, 1984)
//
// Two who have it at once are an error.
package crowd
