package command

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// places are scripts that print the value of {} and a NUL byte, with the value in each place where one can be.
var places = []string{
	`printf '%s\0' {}`,
	`printf '%s\0' "{}"`,
	`printf '%s\0' '{}'`,
	`printf '%s\0' a{}b | sed 's/^a//; s/b\x00$/\x00/'`,
	`x={}; printf '%s\0' "$x"`,
	`x="{}"; printf '%s\0' "$x"`,
	`x='{}'; printf '%s\0' "$x"`,
	`f() { printf '%s\0' "{}"; }; f other arguments`,
	`f() { printf '%s\0' "$1"; }; f {}`,
	`set -- a b c; shift; printf '%s\0' {}`,
	`for x in {}; do printf '%s\0' "$x"; done`,
	`case {} in '{}') printf '%s\0' "{}";; esac`,
	`( cd /; printf '%s\0' {} )`,
	`{ printf '%s\0' {}; } 2>/dev/null`,
	`if [ {} = "{}" ]; then printf '%s\0' '{}'; fi`,
	`X={} sh -c 'printf "%s\0" "$X"'`,
	`export X={}; sh -c 'printf "%s\0" "$X"'`,
	`printf '%s\0' "$(printf '%s.' {})" | sed 's/\.\x00$/\x00/'`,
	`printf '%s\0' "$(printf '%s.' "{}")" | sed 's/\.\x00$/\x00/'`,
}

// E1: A value arrives byte for byte in each place, in sh and in bash, and nothing of it is run.
func TestParseShell_ValuesArrive(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	for _, shell := range []string{"sh", "bash"} {
		scripts := places
		if shell == "bash" {
			scripts = append([]string{`printf '%s\0' $'{}'`, `printf '%s\0' $'\x41{}' | tail -c +2`, `printf '%s\0' <(:) {} | tail -z -n 1`}, places...)
		}
		for _, script := range scripts {
			template, err := New(nil, script, shell, false)
			require.NoError(t, err, script)
			for range 12 {
				value := randomValue(random)
				if strings.Contains(script, "sed") {
					value = strings.ReplaceAll(value, "\n", "") // sed takes lines apart
				}
				require.Equal(t, value+"\x00", output(t, dir, template, value), "%s: %q", shell, script)
			}
		}
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func output(t *testing.T, dir string, template *Template, value string) string {
	t.Helper()
	words, err := template.Words(&Item{Data: []byte(value)})
	require.NoError(t, err)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err, words)
	return string(out)
}

// Braces that are the shell's stay.
func TestParseShell_Braces(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`x=1; echo ${x} ${x:-${y}} {} {{}} "${#x}"`:           "1 1 v {} 1\n",
		`f() { echo "$1"; }; f {}`:                            "v\n",
		`echo a b | awk '{{print $2}}'; echo {}`:              "b\nv\n",
		`echo $#`:                                             "1\n",
		`echo "$1"`:                                           "v\n",
		`{ echo {}; }`:                                        "v\n",
		"echo {}\n# it's a comment\necho x":                   "v\nx\n",
		`echo {1} {2} {3} {4} {5} {6} {7} {8} {9} {10} {-1.}`: "1 2 3 4 5 6 7 8 9 10 11\n",
	} {
		template, err := New(nil, script, "sh", false)
		require.NoError(t, err, script)
		item := &Item{Data: []byte("v")}
		if strings.Contains(script, "{10}") {
			item = &Item{Data: []byte(`["1","2","3","4","5","6","7","8","9","10","11.x"]`), JSON: true}
		}
		words, err := template.Words(item)
		require.NoError(t, err)
		out, err := exec.Command(words[0], words[1:]...).Output()
		require.NoError(t, err, words)
		require.Equal(t, want, string(out), words)
	}
}

// Where a shell would evaluate a value, or cannot be told what it is, a placeholder is refused.
func TestParseShell_Refuses(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"cat <<E\n{x}\nE":                "{x} stands in a here-document",
		"cat <<'E'\n{x}\nE":              "{x} stands in a here-document",
		"cat <<-E\n\t{x}\nE":             "{x} stands in a here-document",
		`echo $(( {x} + 1 ))`:            "{x} stands in arithmetic",
		`echo "$(( {x} ))"`:              "{x} stands in arithmetic",
		`(( {x} ))`:                      "{x} stands in arithmetic",
		`let y={x}`:                      "{x} stands in arithmetic",
		`[[ {x} -eq 1 ]]`:                "{x} stands in [[ ]]",
		`echo "${y:-{x}}"`:               "",
		"echo `echo {x}`":                "{x} stands in ` `",
		`eval echo {x}`:                  "{x} stands behind eval",
		`declare -i y={x}`:               "{x} stands behind declare",
		`printf -v {x} y`:                "{x} stands behind -v",
		`[ -v {x} ]`:                     "{x} stands behind -v",
		`read -r {x}`:                    "{x} stands behind read",
		`unset {x}`:                      "{x} stands behind unset",
		`echo a # {x}`:                   "{x} stands where no value can be",
		`{x}=1`:                          "",
		`{x}() { :; }`:                   "",
		`echo $"{x}"`:                    `{x} stands in $" "`,
		`echo "{x}`:                      "the script cannot be parsed",
		`echo {x} && `:                   "the script cannot be parsed",
		`echo {a b`:                      `has no } behind it`,
		`awk '{print $1}' {}`:            "there is no placeholder {print $1}",
		`a[{x}]=1`:                       "{x} stands in an index",
		`a=([{x}]=1)`:                    "{x} stands in an index",
		`for (( i={x}; ; )); do :; done`: "{x} stands in arithmetic",
	} {
		template, err := New(nil, script, "bash", false)
		if want == "" && err == nil { // it is no place for a placeholder, and harmless
			words, err := template.Words(&Item{Data: []byte(`{"x": "$(touch owned)"}`), JSON: true})
			require.NoError(t, err)
			cmd := exec.Command(words[0], words[1:]...)
			cmd.Dir = t.TempDir()
			_ = cmd.Run()
			require.NoFileExists(t, cmd.Dir+"/owned", script)
			continue
		}
		require.ErrorContains(t, err, want, script)
		require.NotContains(t, fmt.Sprint(err), "StintValue")
	}
}

func TestParseShell_Shells(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"sh", "/bin/bash", "/bin/dash"} {
		template, err := New(nil, "echo {}", shell, false)
		require.NoError(t, err)
		require.Equal(t, shell, template.Program())
	}
	_, err := New(nil, "echo {}", "fish", false)
	require.EqualError(t, err, `shell "fish": use sh, dash or bash`)
}

// Many values of a JSON item arrive as well, and a script may hold what looks like a mark.
func TestParseShell_Fields(t *testing.T) {
	t.Parallel()
	template, err := New(nil, `: StintValue0End; printf '%s\0' {a} "{b}" '{c.d}' {a/.}`, "sh", false)
	require.NoError(t, err)
	data, err := json.Marshal(map[string]any{"a": "x y/$(id).z", "b": 1, "c": map[string]any{"d": "'"}})
	require.NoError(t, err)
	words, err := template.Words(&Item{Data: data, JSON: true})
	require.NoError(t, err)
	out, err := exec.Command(words[0], words[1:]...).Output()
	require.NoError(t, err)
	require.Equal(t, "x y/$(id).z\x001\x00'\x00$(id)\x00", string(out))
}
