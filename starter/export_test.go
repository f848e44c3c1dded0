package starter

import "github.com/spf13/cobra"

// Commands returns stint's commands, for tests that look at them.
func Commands() *cobra.Command { return newRoot(&Program{Options: Options{Name: "stint"}}) }
