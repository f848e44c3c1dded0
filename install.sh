#!/bin/sh
# Installs stint, or replaces it by another version:
#
#   curl -fsSL https://github.com/stint-run/stint/releases/latest/download/install.sh | sh
#
# Variables, all of which may be left out:
#
#   STINT_VERSION   the version, such as v0.1.0 (default: the latest release)
#   STINT_DIR       the directory for the program (default: ~/.local/bin, of root /usr/local/bin)
#   STINT_PROGRAM   stint, or stint-worker for workers and clients of a cluster on Linux: it has no Temporal server
#   STINT_BASE_URL  where the releases are (default: https://github.com/stint-run/stint/releases)
#
# Nothing is installed whose checksum is not that of the release. All of it is a function that the last line calls, so
# that half a script does nothing.

set -u

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

# has reports whether there is a command.
has() { command -v "$1" >/dev/null 2>&1; }

# system prints the operating system and the processor in the words of the archives' names.
system() {
  os=$(uname -s) arch=$(uname -m)
  case $os in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) fail "there is no release for $os: Go builds stint from source, see https://github.com/stint-run/stint#install" ;;
  esac
  case $arch in
    x86_64 | amd64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) fail "there is no release for $os on $arch: Go builds stint from source, see https://github.com/stint-run/stint#install" ;;
  esac
  printf '%s_%s' "$os" "$arch"
}

# fetch downloads an address into a file.
fetch() {
  if has curl; then
    curl -fsSL --retry 3 --connect-timeout 20 -o "$2" "$1"
  else
    wget -q -T 60 -O "$2" "$1"
  fi
}

# checksum prints the SHA-256 of a file.
checksum() {
  if has sha256sum; then
    sha256sum "$1"
  elif has shasum; then
    shasum -a 256 "$1"
  else
    openssl dgst -sha256 -r "$1"
  fi | cut -d ' ' -f 1
}

# directory prints where the program goes.
directory() {
  if [ -n "${STINT_DIR:-}" ]; then
    printf '%s' "$STINT_DIR"
  elif [ "$(id -u)" = 0 ]; then
    printf '/usr/local/bin'
  elif [ -n "${HOME:-}" ]; then
    printf '%s/.local/bin' "$HOME"
  else
    fail "HOME is not set: name a directory with STINT_DIR"
  fi
}

# install_to puts the program into the directory, in one step.
install_to() {
  mkdir -p "$2" 2>/dev/null || fail "cannot make $2: name a directory of yours with STINT_DIR, or run this as root"
  new=$2/.$3.new.$$
  if ! cp "$1" "$new" 2>/dev/null || ! chmod 755 "$new" || ! mv -f "$new" "$2/$3"; then
    rm -f "$new" 2>/dev/null
    fail "cannot write into $2: name a directory of yours with STINT_DIR, or run this as root"
  fi
}

main() {
  has curl || has wget || fail "neither curl nor wget is here: install one of them"
  has sha256sum || has shasum || has openssl || fail "none of sha256sum, shasum and openssl is here, and the download has to be checked: install one of them"
  has tar || fail "tar is not here: install it"
  program=${STINT_PROGRAM:-stint}
  case $program in
    stint | stint-worker) ;;
    *) fail "STINT_PROGRAM=$program: use stint or stint-worker" ;;
  esac
  base=${STINT_BASE_URL:-https://github.com/stint-run/stint/releases}
  base=${base%/}
  case ${STINT_VERSION:-latest} in
    latest) from=$base/latest/download ;;
    v*) from=$base/download/$STINT_VERSION ;;
    *) from=$base/download/v$STINT_VERSION ;;
  esac
  platform=$(system) || exit 1
  dir=$(directory) || exit 1
  archive=${program}_$platform.tar.gz

  tmp=$(mktemp -d "${TMPDIR:-/tmp}/stint-install.XXXXXX") || fail "cannot make a temporary directory: set TMPDIR to one with 250 MB of room"
  trap 'rm -rf "$tmp"' EXIT
  trap 'exit 130' INT TERM HUP

  fetch "$from/SHA256SUMS" "$tmp/SHA256SUMS" || fail "cannot download $from/SHA256SUMS: there is no such version, or this machine does not reach it"
  wanted=$(sed -n "s/^\([0-9a-f]*\)  $archive\$/\1/p" "$tmp/SHA256SUMS") # an empty system has no awk
  [ -n "$wanted" ] || fail "this release has no $archive: see what $from has, or build stint from source"
  echo "downloading $from/$archive"
  fetch "$from/$archive" "$tmp/$archive" || fail "cannot download all of $from/$archive: run this again"
  found=$(checksum "$tmp/$archive")
  [ "$found" = "$wanted" ] || fail "the checksum of $archive is wrong, and nothing is installed: the download may be damaged, so run this again; if it stays so, tell https://github.com/stint-run/stint/issues
  expected $wanted
  found    $found"
  tar -xzf "$tmp/$archive" -C "$tmp" || fail "cannot unpack $archive in $tmp: is there room? TMPDIR names another directory"
  set -- "$tmp"/*/"$program"
  [ -f "$1" ] || fail "there is no $program in $archive"
  "$1" version >"$tmp/version" 2>&1 || fail "the program does not run on this machine, and is not installed: $(head -n 1 "$tmp/version")"
  old=
  [ ! -x "$dir/$program" ] || old=$("$dir/$program" version 2>/dev/null | head -n 1)
  install_to "$1" "$dir" "$program"

  echo "installed $dir/$program: $(head -n 1 "$tmp/version")"
  [ -z "$old" ] || echo "it was: $old"
  case :${PATH:-}: in
    *:"$dir":*) ;;
    *) echo "$dir is not in PATH; add it:  export PATH=\"$dir:\$PATH\"" ;;
  esac
  other=$(command -v "$program" 2>/dev/null) || other=
  [ -z "$other" ] || [ "$other" = "$dir/$program" ] || echo "PATH has another one before it: $other"
  echo "completion:  $program completion bash (or zsh, fish) prints a script"
  echo "upgrade:     run this again    uninstall:  rm $dir/$program"
}

main
