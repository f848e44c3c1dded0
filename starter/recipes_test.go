package starter_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-run/stint/internal/test/pytest"
	"github.com/stint-run/stint/starter"
	"github.com/stretchr/testify/require"
)

// recipe runs the shell blocks of a recipe.
func recipe(t *testing.T, heading string, replace ...string) *box {
	t.Helper()
	b := setup(t)
	b.clone()
	b.paste(fenced(section(t, document(t, "docs/recipes.md"), "## "+heading), "sh"), replace...).exits(starter.ExitOK)
	return b
}

// 14.16: every recipe has a test.
func TestRecipes_AreAllTested(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("recipes_test.go")
	require.NoError(t, err)
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(document(t, "docs/recipes.md"), -1)
	require.Len(t, headings, 10)
	for _, h := range headings {
		require.Contains(t, string(source), `recipe(t, "`+h[1]+`"`)
	}
}

func TestRecipe_TooManyRequests(t *testing.T) {
	t.Parallel()
	pytest.Find(t)
	port := freePort(t)
	listens := "until (: < /dev/tcp/127.0.0.1/" + port + ") 2>/dev/null; do sleep 0.05; done" // a person is slower than the server's start
	b := recipe(t, "An API that answers 429", "8429 100 &", port+" 100 &\n"+listens, "8429", port)
	require.Equal(t, 300, b.lines("hemispheres.jsonl"))
	require.Regexp(t, `^{"id":"ci37868143","ns":"north","ew":"west"}\n`, b.read("hemispheres.jsonl"))
	require.NoFileExists(t, b.path("hemispheres.jsonl.errors.jsonl"), "a refused request is not a failed item")
}

func TestRecipe_EachRecord(t *testing.T) {
	t.Parallel()
	pytest.Find(t)
	port := freePort(t)
	listens := "until (: < /dev/tcp/127.0.0.1/" + port + ") 2>/dev/null; do sleep 0.05; done" // a person is slower than the server's start
	b := recipe(t, "An API for each record", "8430 100 &", port+" 100 &\n"+listens, "8430", port)
	require.Equal(t, 300, b.lines("api.jsonl"))
	require.Regexp(t, `^{"id":"ci37868143","ns":"north","ew":"west"}\n`, b.read("api.jsonl"))
	require.Equal(t, b.read("api.jsonl"), b.read("lists.jsonl"))
	require.NoFileExists(t, b.path("api.jsonl.errors.jsonl"), "a refused request is not a failed item")
}

func TestRecipe_SmallFiles(t *testing.T) {
	t.Parallel()
	tool(t, "jq", "split")
	b := recipe(t, "A thousand small files")
	require.Equal(t, 1000, b.lines("places.jsonl"))
	first, _, _ := strings.Cut(b.read("places.jsonl"), "\n")
	require.Equal(t, `{"id":"ci37868143","place":"4km W of Castaic, CA"}`, first)
	require.Equal(t, 1000, b.lines("sums.txt"))
	require.Regexp(t, `^\d+ \d+ /\S*/small/quake\.aaa\n\d+ \d+ /\S*/small/quake\.aab\n`, b.read("sums.txt"))
}

func TestRecipe_Redrive(t *testing.T) {
	t.Parallel()
	const fails = "examples/data/birdstrikes.csv -o risk.jsonl"
	b := recipe(t, "Retry what failed", fails, fails+" # exit status 3")
	require.Equal(t, 10_000, b.lines("risk.jsonl"))
	require.NoFileExists(t, b.path("risk.jsonl.errors.jsonl"), "none has failed for good")
}

func TestRecipe_Model(t *testing.T) {
	t.Parallel()
	pytest.Find(t)
	b := recipe(t, "A model in Python")
	require.Equal(t, 10_000, b.lines("classes.jsonl"))
	require.Equal(t, 10_000, b.lines("scores.jsonl"))
	var first struct{ Score int }
	require.NoError(t, json.NewDecoder(strings.NewReader(b.read("scores.jsonl"))).Decode(&first))
	require.Equal(t, 9, first.Score)
}

func TestRecipe_Nightly(t *testing.T) {
	t.Parallel()
	b := recipe(t, "A nightly job, with a redrive in the morning")
	found, err := filepath.Glob(b.path("risk-20*.jsonl"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, 10_000, b.lines(found[0]))
}

func TestRecipe_Cluster(t *testing.T) {
	t.Parallel()
	shared := t.TempDir()
	b := recipe(t, "A cluster on three machines", "/srv/strikes", shared)
	require.Equal(t, 10_000, b.lines(filepath.Join(shared, "upper.jsonl")))
}

// Where parallel is not installed its command is left out, and tr stands for it.
func TestRecipe_Stream(t *testing.T) {
	t.Parallel()
	tool(t, "jq")
	b := recipe(t, "A stream")
	require.Regexp(t, `^([0-9:]{8} ".+"\n){3}$`, b.read("seen.txt"))
}

func TestRecipe_Parallel(t *testing.T) {
	t.Parallel()
	var replace []string
	if _, err := exec.LookPath("parallel"); err != nil {
		t.Log("there is no parallel on this machine: tr takes its place")
		replace = []string{"parallel --pipe -k -j2 --block 100k 'tr a-z A-Z'", "tr a-z A-Z"}
	}
	b := recipe(t, "From parallel to stint", replace...)
	require.Equal(t, 1707, b.lines("loud.stint"))
}

func TestRecipe_Xargs(t *testing.T) {
	t.Parallel()
	tool(t, "xargs")
	b := recipe(t, "From xargs to stint")
	require.Equal(t, 4, b.lines("sums.stint"))
}
