// Package stages has what lies between the stages of a pipeline: what a step writes is a [Part], and a [Source] reads
// what later steps get of it, through a view (view.go and graph.go). An item keeps its ordinal through all steps. Once
// it has failed or was dropped, later stages do not see it: its outcome is carried along.
//
// # Steps
//
// The stages of a pipeline, with ensembles and switches within each other, are compiled to a list of steps
// (internal/data/pipeline). A leg, of files or of a feed, takes each batch through all of them (pages/stageflow.go): a
// batch that one step has done goes to the next step before any new batch begins; windows of stages are in
// workflows/internal/stagewindow. The part between two steps has a line for each item, empty if it has no result
// there. A step's execution reads a view of such parts (internal/data/stages/view.go): one of them, the items of one
// case, the list of an ensemble, the results of a switch's cases (graph.go). It carries settled outcomes on, so that
// the last step's part is like that of any job. decision 031 has the reasons.
//
// stint run has a worker for each pool of a pipeline in its process (local/pools.go). On its server the pools' names
// begin with the job's, so that batches of another job of the state, which was interrupted, never reach these
// handlers. plan --sample runs its sample as a small job in the same way, in memory (starter/plan.go, decision
// 064).
package stages
