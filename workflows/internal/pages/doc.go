// Package pages has what kinds of jobs share whose sources are read in order. A [Pager] has pages of batches found, and
// gives each to a leg, in a child workflow or, if it is small, inside the job. [RunLeg] runs such a leg. A [Flow] takes
// the batches of a leg through the stages of a pipeline.
package pages
