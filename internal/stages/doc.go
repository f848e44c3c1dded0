// Package stages has what lies between the stages of a pipeline: what a step writes is a [Part], and a [Source] reads what later steps get of
// it, through a view (view.go, with ensemble.go and switch.go). An item keeps its ordinal through all steps. Once it has failed or was
// dropped, later stages do not see it: its outcome is carried along.
package stages
