// Package upgrade has the tests of upgrades with whole processes: the program of an earlier commit, which the file
// PREVIOUS names, and that of today with a version of the logic more (build tag nextlogic). Each runs jobs of the other
// one's time, side by side, there and back.
//
// STINT_UPGRADE=long (`make upgrade-test`) also puts the mistake in once: a change without a gate.
package upgrade
