//go:build !nextlogic

package workflows

import "go.temporal.io/sdk/workflow"

// begin is where the tests of upgrades have a gate: see nextlogic_on.go.
func begin(workflow.Context, int) {}
