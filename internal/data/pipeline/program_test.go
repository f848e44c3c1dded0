package pipeline

import (
	"slices"
	"testing"

	"github.com/stint-run/stint/internal/wire"
	"github.com/stint-run/stint/job"
	"github.com/stretchr/testify/require"
)

func compiled(t *testing.T, all ...job.Stage) Program {
	t.Helper()
	s := job.Spec{Name: "n", Files: &job.Files{Input: []string{"i"}}, Output: "o", Stages: all}.WithDefaults()
	require.NoError(t, s.Validate())
	return Compile(s.Stages)
}

// names are the steps, those that gather with a "+".
func names(p Program) (all []string) {
	for _, s := range p {
		name := s.Name + "@" + s.Pool
		if s.Gather {
			name += "+"
		}
		all = append(all, name)
	}
	return all
}

// What several steps read is gathered first, and the last step is never within another stage.
func TestCompile(t *testing.T) {
	t.Parallel()
	ensemble := job.Stage{Name: "score", Ensemble: []job.Stage{{Pool: "a"}, {Pool: "b"}}}
	router := job.Stage{Name: "route", Switch: "r", Cases: []job.Case{{Value: "x", Stage: job.Stage{Pool: "px"}}}, Default: &job.Stage{Pool: "py"}}
	for _, c := range []struct {
		name string
		of   []job.Stage
		want []string
	}{
		{"none", nil, nil},
		{"a sequence", []job.Stage{{Name: "clean", Pool: "c"}, {Name: "format", Pool: "f"}}, []string{"clean@c", "format@f"}},
		{"an ensemble alone", []job.Stage{ensemble}, []string{"score@a+", "score.a@a", "score.b@b", "score@b+"}},
		{"an ensemble between", []job.Stage{{Name: "clean", Pool: "c"}, ensemble, {Name: "format", Pool: "f"}}, []string{"clean@c", "score.a@a", "score.b@b", "format@f"}},
		{"a switch after an ensemble", []job.Stage{{Name: "clean", Pool: "c"}, ensemble, router}, []string{
			"clean@c", "score.a@a", "score.b@b", "score@b+", "route@r", "route.px@px", "route.py@py", "route@py+",
		}},
		{"stages within an ensemble", []job.Stage{{Name: "clean", Pool: "c"}, {Name: "two", Ensemble: []job.Stage{
			{Name: "m", Stages: []job.Stage{{Pool: "a"}, {Pool: "b"}}}, {Name: "n", Ensemble: []job.Stage{{Pool: "d"}, {Pool: "e"}}},
		}}}, []string{"clean@c", "two.m.a@a", "two.m.b@b", "two.n@c+", "two.n.d@d", "two.n.e@e", "two@e+"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.of == nil {
				require.Empty(t, Compile(nil))
				return
			}
			p := compiled(t, c.of...)
			require.Equal(t, c.want, names(p))
			for i := range p {
				require.Equal(t, i == len(p)-1, p[i].Last)
				require.False(t, p[i].Last && p[i].Inner)
			}
		})
	}
}

// A parcel has the parts that later steps read, and no others; steps of cases that no item belongs to are left out.
func TestProgram_Parcel(t *testing.T) {
	t.Parallel()
	p := compiled(t,
		job.Stage{Name: "clean", Pool: "c"},
		job.Stage{Name: "route", Switch: ".k", Cases: []job.Case{
			{Value: "x", Stage: job.Stage{Pool: "px"}},
			{Value: "y", Stage: job.Stage{Name: "y", Stages: []job.Stage{{Pool: "p1"}, {Pool: "p2"}}}},
			{Value: "z", Stage: job.Stage{Pool: "pz"}},
		}},
		job.Stage{Name: "format", Pool: "f"},
	)
	require.Equal(t, []string{"clean@c", "route.px@px", "route.y.p1@p1", "route.y.p2@p2", "route.pz@pz", "format@f"}, names(p))
	part := func(step int) wire.Part { return wire.Part{Number: p[step].Writes, Token: p[step].Name} }
	numbers := func(parcel *wire.Parcel) (all []int) {
		for _, part := range parcel.Parts {
			all = append(all, part.Number)
		}
		return all
	}
	clean := p.Parcel(0, nil, "run", part(0), 0, nil)
	require.Equal(t, 1, clean.Step)
	require.Equal(t, []int{1}, numbers(clean))

	for _, c := range []struct {
		name   string
		routed uint32
		steps  []int // that follow the first case's
		parts  []int // at the last step
	}{
		{"all cases", 7, []int{2, 3, 4, 5}, []int{1, 2, 4, 5}},
		{"the second", 2, []int{2, 3, 5}, []int{1, 2, 4}},
		{"the last", 4, []int{4, 5}, []int{1, 2, 5}},
		{"the first", 1, []int{5}, []int{1, 2}},
		{"none", 0, []int{5}, []int{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at := p.Parcel(1, clean, "run", part(1), c.routed, nil)
			for _, want := range c.steps {
				require.Equal(t, want, at.Step)
				if want < len(p)-1 {
					at = p.Parcel(want, at, "run", part(want), c.routed, nil)
				}
			}
			require.Equal(t, c.parts, numbers(at))
		})
	}
}

// The run that has counted the items is that of the last step outside an ensemble or a switch.
func TestProgram_Run(t *testing.T) {
	t.Parallel()
	p := compiled(t, job.Stage{Name: "clean", Pool: "c"}, job.Stage{Name: "score", Ensemble: []job.Stage{{Pool: "a"}, {Pool: "b"}}}, job.Stage{Name: "format", Pool: "f"})
	first := p.Parcel(0, nil, "run-1", wire.Part{Number: 1}, 0, nil)
	member := p.Parcel(1, first, "run-2", wire.Part{Number: 2, Run: "run-2"}, 0, nil)
	require.Equal(t, "run-1", member.Run)
	require.Equal(t, 2, member.Step)
}

// P4: a stage's batches have as many items as it says at most, as far as there are cuts; one without bytes can be cut
// anywhere.
func TestProgram_Split(t *testing.T) {
	t.Parallel()
	p := compiled(t, job.Stage{Name: "clean", Pool: "c"}, job.Stage{Name: "score", Pool: "s", BatchItems: 30})
	require.EqualValues(t, 30, p[0].Cut)
	cuts := []wire.Cut{{Item: 110, Offset: 1100}, {Item: 120, Offset: 1200}, {Item: 140, Offset: 1400}, {Item: 180, Offset: 1800}}
	for _, c := range []struct {
		name string
		of   wire.Batch
		cuts []wire.Cut
		want []wire.Batch
	}{
		{"small enough", wire.Batch{Offset: 1000, Length: 300, First: 100, Count: 30}.Sealed(), cuts, []wire.Batch{wire.Batch{Offset: 1000, Length: 300, First: 100, Count: 30}.Sealed()}},
		{"no cuts", wire.Batch{Offset: 1000, Length: 1000, First: 100, Count: 100}.Sealed(), nil, []wire.Batch{wire.Batch{Offset: 1000, Length: 1000, First: 100, Count: 100}.Sealed()}},
		{"cuts", wire.Batch{Offset: 1000, Length: 1000, First: 100, Count: 100}.Sealed(), cuts, []wire.Batch{
			wire.Batch{Offset: 1000, Length: 200, First: 100, Count: 20}.Sealed(), wire.Batch{Offset: 1200, Length: 200, First: 120, Count: 20}.Sealed(),
			wire.Batch{Offset: 1400, Length: 400, First: 140, Count: 40}.Sealed(), wire.Batch{Offset: 1800, Length: 200, First: 180, Count: 20}.Sealed(),
		}},
		{"a rest", wire.Batch{Offset: 1250, Length: 750, First: 125, Count: 75}.Sealed(), cuts, []wire.Batch{
			wire.Batch{Offset: 1250, Length: 150, First: 125, Count: 15}.Sealed(), wire.Batch{Offset: 1400, Length: 400, First: 140, Count: 40}.Sealed(), wire.Batch{Offset: 1800, Length: 200, First: 180, Count: 20}.Sealed(),
		}},
		{"a feed's", wire.Batch{First: 7, Count: 70}.Sealed(), nil, []wire.Batch{wire.Batch{First: 7, Count: 30}.Sealed(), wire.Batch{First: 37, Count: 30}.Sealed(), wire.Batch{First: 67, Count: 10}.Sealed()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			parcel := &wire.Parcel{Step: 1, Cuts: c.cuts}
			c.of = c.of.With(parcel)
			for i := range c.want {
				own := *parcel
				if len(c.want) > 1 { // each has the cuts within it
					own.Cuts = slices.DeleteFunc(slices.Clone(c.cuts), func(cut wire.Cut) bool {
						return cut.Item <= c.want[i].First || cut.Item >= c.want[i].End()
					})
				}
				if len(own.Cuts) == 0 {
					own.Cuts = nil
				}
				c.want[i] = c.want[i].With(&own)
			}
			require.Equal(t, c.want, p.Split(c.of))
		})
	}
}

// A leg has no more executions of a pipeline's batches than of others, whatever they are split into.
func TestProgram_Page(t *testing.T) {
	t.Parallel()
	require.Equal(t, wire.PageBatches, Program(nil).Page(0))
	two := compiled(t, job.Stage{Name: "clean", Pool: "c"}, job.Stage{Name: "score", Pool: "s"})
	require.Equal(t, wire.PageBatches/2, two.Page(0))
	score := job.Stage{Name: "score", Pool: "s", BatchItems: 30}
	split := compiled(t, job.Stage{Name: "clean", Pool: "c"}, job.Stage{Name: "look", Pool: "l"}, score)
	require.Equal(t, 26, split.Page(0), "19 executions of 17 pieces, and a quarter for what pieces carry")
	require.Equal(t, 85, split.Page(100), "batches of 100 items have four pieces of 30 or more")
	require.Equal(t, wire.PageBatches/3, split.Page(20))
	require.Equal(t, 1, make(Program, 2*wire.PageBatches).Page(0), "a page is never empty")
}
