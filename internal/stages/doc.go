// Package stages has what lies between two stages of a pipeline: [Part], to which a stage writes what the next one reads, and
// [Source], which reads it there. An item keeps its ordinal through all stages. Once it has failed or was dropped, the later
// stages do not see it: its outcome is carried along.
package stages
