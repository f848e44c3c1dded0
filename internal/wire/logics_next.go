//go:build nextlogic

package wire

// A program of a release to come, for the tests of upgrades: its logic has another command at the beginning of each
// workflow.
const LogicVersion = 2

var logics = [...]int{1, LogicVersion}
