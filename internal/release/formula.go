package main

import (
	"bytes"
	"strings"
	"text/template"
)

// archiveOf is the archive of stint for a platform.
func archiveOf(platform string) string {
	return "stint_" + strings.ReplaceAll(platform, "/", "_") + ".tar.gz"
}

// formula makes the formula for Homebrew from the checksums of all platforms' archives.
func (r *release) formula(s sums) []byte {
	var b bytes.Buffer
	template.Must(template.New("formula").Funcs(template.FuncMap{
		"url": func(os, arch string) string { return r.url(archiveOf(os + "/" + arch)) },
		"sum": func(os, arch string) string { return s.of(archiveOf(os + "/" + arch)) },
	}).Parse(formulaText)).Execute(&b, map[string]string{"Summary": summary, "Project": project, "Version": r.version})
	return b.Bytes()
}

const formulaText = `class Stint < Formula
  desc "{{.Summary}}"
  homepage "{{.Project}}"
  version "{{.Version}}"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "{{url "darwin" "arm64"}}"
      sha256 "{{sum "darwin" "arm64"}}"
    end
    on_intel do
      url "{{url "darwin" "amd64"}}"
      sha256 "{{sum "darwin" "amd64"}}"
    end
  end

  on_linux do
    on_arm do
      url "{{url "linux" "arm64"}}"
      sha256 "{{sum "linux" "arm64"}}"
    end
    on_intel do
      url "{{url "linux" "amd64"}}"
      sha256 "{{sum "linux" "amd64"}}"
    end
  end

  def install
    bin.install "stint"
    bash_completion.install "completions/stint.bash" => "stint"
    zsh_completion.install "completions/_stint"
    fish_completion.install "completions/stint.fish"
    man1.install "man/stint.1"
    pkgshare.install "python"
  end

  test do
    assert_match "stint v#{version}", shell_output("#{bin}/stint version")
    (testpath/"in.txt").write "a\nb\n"
    system bin/"stint", "run", "--exec", "tr a-z A-Z", "in.txt", "-o", "out.txt"
    assert_equal "A\nB\n", (testpath/"out.txt").read
  end
end
`
